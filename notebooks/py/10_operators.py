# ---
# jupyter:
#   jupytext:
#     notebook_metadata_filter: -jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] lang="en"
# # 10 · Operators
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, first write your guess in place of the three
# dots; *Run All* works without guesses. The sessions are real connections to a database of this notebook's own.

# %% [markdown] lang="pt"
# # 10 · Operadores
#
# Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva antes o seu palpite no lugar dos três
# pontos; *Run All* funciona sem palpites. As sessões são conexões reais a um banco só deste notebook.

# %% lang="en"
import lab.notebook as nb  # No module named 'lab'? Open this notebook with ./lab notebook

nb.begin("10", lang="en")

# %% lang="pt"
import lab.notebook as nb  # No module named 'lab'? Abra este notebook com ./lab notebook

nb.begin("10", lang="pt")

# %% [markdown] lang="en"
# ## Document 1 is to be put out of the way
# An operator, O, looks first: `examinar` shows version, attempts, worker, lease, stage and key, and changes nothing. A is at
# work. Then A's lease ends, and O sends the very same command again.

# %% [markdown] lang="pt"
# ## É preciso tirar o documento 1 do caminho
# Uma operadora, O, primeiro olha: `examinar` mostra versão, tentativas, worker, prazo, etapa e chave, e não muda nada. A está
# trabalhando. Depois, a reserva de A vence, e O envia exatamente o mesmo comando.

# %%
nb.sql("10_pause", "o_examines")
nb.ask("10_pause", "o_pauses")
guess = ...  # a number of rows | um número de linhas

# %%
paused = nb.play("10_pause")
nb.answer(guess, len(paused["o_pauses"].rows))
nb.table(paused, "o_examines")

# %%
nb.ask("10_pause", "o_pauses_orphan")
guess = ...  # a number of rows | um número de linhas

# %%
nb.answer(guess, len(paused["o_pauses_orphan"].rows))
nb.ask("10_pause", "a_finishes")
guess = ...  # a number of rows | um número de linhas

# %%
nb.answer(guess, len(paused["a_finishes"].rows))
nb.claim("10_pause", paused)
nb.ownership(paused)
nb.events(paused)

# %% [markdown] lang="en"
# **Why.** While a lease lives, its worker may be in the middle of a call: the document may not be taken away. Once it has ended,
# the pause voids the token, as a take-over does, and whatever A still sends fits no row.
#
# ## "Just set everything back to pendente"
# Two workers live, two documents in work. An operator thinks that the queue hangs, and types the `UPDATE` of `reset.sql`.

# %% [markdown] lang="pt"
# **Por quê.** Enquanto a reserva vale, o worker pode estar no meio de uma chamada: não se tira o documento dele. Depois que ela
# vence, a pausa anula o token, como faz quem assume, e o que A ainda enviar não combina com nenhuma linha.
#
# ## "É só devolver tudo a pendente"
# Dois workers vivos, dois documentos em andamento. Alguém na operação acha que a fila travou e digita o `UPDATE` do
# `reset.sql`.

# %%
nb.sql("10_blind_reset", "o_recovers", "o_pauses", "o_resets")
nb.ask("10_blind_reset", "o_counts")
guess = ...  # a number of effects | um número de efeitos

# %%
blind = nb.play("10_blind_reset")
nb.answer(guess, blind["o_counts"].one("efeitos"))
nb.claim("10_blind_reset", blind)
nb.table(blind, "o_audits")

# %% [markdown] lang="en"
# **Why.** The `UPDATE` asks for a state, and a state does not say who lives. `recuperar` asks for the deadline and took nothing.
# The audit shows two claims of document 1 and nothing between them: who did it, and why, is lost.
#
# ## As it was seen, or not at all
# O looks at document 1: `pendente`, version 0. While O ponders, A tries it and fails; it is `pendente` again.

# %% [markdown] lang="pt"
# **Por quê.** O `UPDATE` pergunta por um estado, e um estado não diz quem está vivo. `recuperar` pergunta pelo prazo e não
# pegou nada. A auditoria mostra duas reservas do documento 1 e nada entre elas: quem fez aquilo, e por quê, se perdeu.
#
# ## Como foi visto, ou nada
# O olha o documento 1: `pendente`, versão 0. Enquanto O pensa, A tenta o documento e falha; ele volta a `pendente`.

# %%
nb.sql("10_commands", "o_gives_no_reason")
nb.ask("10_commands", "o_pauses_what_was_seen")
guess = ...  # a number of rows | um número de linhas

# %%
commands = nb.play("10_commands")
nb.answer(guess, len(commands["o_pauses_what_was_seen"].rows))
nb.claim("10_commands", commands)
nb.table(commands, "o_audits")

# %% [markdown] lang="en"
# **Why.** The state is the same, the document is not: one attempt more, and an error to read. A version never comes back, so a
# command that names it acts on what was seen, or on nothing. Sent twice, it acts once.
#
# ## A result that people found
# A was about to call, got no answer, and could not ask.

# %% [markdown] lang="pt"
# **Por quê.** O estado é o mesmo, o documento não: tem uma tentativa a mais e um erro para ler. Uma versão nunca se repete, e
# um comando que a cita age sobre o que foi visto, ou sobre nada. Enviado duas vezes, age uma só.
#
# ## Um resultado que alguém encontrou
# A ia chamar, não teve resposta e não pôde perguntar.

# %%
nb.ask("10_reconcile", "o_examines")
guess = ...  # the operation key | a chave da operação

# %%
found = nb.play("10_reconcile")
nb.answer(guess, found["o_examines"].one("chave_operacao"))
nb.claim("10_reconcile", found)
nb.table(found, "o_examines_again")

# %% [markdown] lang="en"
# **Why.** The key is the one name that queue and receiver share, and it is the same at every attempt. What was found is confirmed
# with its reference, by the version that was seen: a second confirmation changes nothing.
#
# ## Who may do what
# Four roles: the application enqueues, the worker runs the protocol, the operator commands, the reader reads. Each then tries
# everything else in the schema: every function; reading, changing, emptying and locking every table. How many of these
# attempts get through?

# %% [markdown] lang="pt"
# **Por quê.** A chave é o único nome que fila e receptor têm em comum, e é a mesma em toda tentativa. O que foi encontrado é
# confirmado com a sua referência, pela versão que foi vista: uma segunda confirmação não muda nada.
#
# ## Quem pode o quê
# Quatro papéis: a aplicação enfileira, o worker roda o protocolo, o operador comanda, o leitor lê. Cada um tenta então todo o
# resto do esquema: toda função; ler, alterar, esvaziar e bloquear toda tabela. Quantas dessas tentativas passam?

# %%
guess = ...  # a number of attempts | um número de tentativas

# %%
tried = nb.facts("10.permissions")
nb.answer(guess, tried["tried"] - tried["refused"] if tried else "—")

# %% [markdown] lang="en"
# **Why.** A worker that may `UPDATE` the table can skip every guard of it. So it may not touch the table: it may call functions,
# which run as their owner (`SECURITY DEFINER`), and revoked from everyone else. In
# their `search_path` stand the server's names alone, and their own names have their schema: what another role creates is never found.
#
# ## Before a deployment
# `./lab check-permissions` does all that the protocol asks of the service accounts, on a document and a tenant of its own, and
# rolls it back. Meanwhile another worker asks for the four live documents. How many does it get?

# %% [markdown] lang="pt"
# **Por quê.** Um worker que pode dar `UPDATE` na tabela escapa de todas as condições dela. Por isso ele não toca na tabela:
# chama funções, que rodam como o dono delas (`SECURITY DEFINER`), proibidas para todos os outros. No
# `search_path` delas só há nomes do servidor, e os nomes delas levam o esquema: o que outro papel cria nunca é encontrado.
#
# ## Antes de um deploy
# `./lab check-permissions` faz tudo o que o protocolo pede das contas de serviço, em um documento e um inquilino só dele, e
# desfaz com rollback. Enquanto isso, outro worker pede os quatro documentos vivos. Quantos recebe?

# %%
guess = ...  # a number of documents | um número de documentos

# %%
checked = nb.facts("10.check_permissions")
nb.answer(guess, checked.get("claimed", "—"))

# %% [markdown] lang="en"
# **Why.** The row it works on is its own and never committed, so no session meets it. And a missing grant is named before the first
# document needs it.
#
# Revoke another grant, or two, and see what the check says.

# %% [markdown] lang="pt"
# **Por quê.** A linha em que ele trabalha é só dele e nunca recebe COMMIT; nenhuma sessão a encontra. E um direito que falta é
# apontado antes que o primeiro documento precise dele.
#
# Revogue outro direito, ou dois, e veja o que a verificação diz.

# %%
import psycopg

from lab.base.errors import LabError
from lab.protocol import permissions

with nb.stage().connection() as owner, owner.transaction(force_rollback=True):
    try:
        owner.execute("REVOKE EXECUTE ON FUNCTION renovar FROM sql_semana_12_worker")
        print(*permissions.check(owner).missing, sep="\n")
    except (LabError, psycopg.errors.UndefinedObject) as reason:
        print(reason)  # where this user may not make roles | onde este usuário não pode criar papéis

# %% [markdown] lang="en"
# **What a production queue does.** It gives people commands, not `UPDATE`; it shows them the row before; it writes down who and
# why. Its service accounts are members of such roles, and the check runs in the pipeline. `./lab top` shows the view `situacao`.
#
# **What we simplified.** Who commands is a text that the caller gives: a real system takes it from the login. Roles know no
# tenants here. The reader sees payloads too. In the scenarios for psql what people find at the receiver (`R-4711`) is written into the
# script; the drills of lesson 09 ask a real one.
#
# ## Surprises

# %% [markdown] lang="pt"
# **O que uma fila de produção faz.** Dá comandos às pessoas, não `UPDATE`; antes, mostra a linha; registra quem e por quê. As
# contas de serviço são membros desses papéis, e a verificação roda no pipeline. `./lab top` mostra a view `situacao`.
#
# **O que simplificamos.** Quem comanda é um texto informado na chamada: um sistema de verdade o tira do login. Os papéis aqui
# não conhecem inquilinos. O leitor também vê os conteúdos. Nos cenários para o psql, o que alguém encontra no receptor
# (`R-4711`) está escrito no script; os ensaios da lição 09 perguntam a um de verdade.
#
# ## Surpresas

# %%
nb.surprises("10")

# %% [markdown] lang="en"
# **Next:** 11, races (to come): what else goes wrong when two come at once.

# %% [markdown] lang="pt"
# **A seguir:** 11, corridas (por vir): o que mais dá errado quando dois chegam ao mesmo tempo.
