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
# # 06 · The token
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, first write your guess in place of the three
# dots; *Run All* works without guesses. The sessions are real connections to a database of this notebook's own.

# %% [markdown] lang="pt"
# # 06 · O token
#
# Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva antes o seu palpite no lugar dos três
# pontos; *Run All* funciona sem palpites. As sessões são conexões reais a um banco só deste notebook.

# %% lang="en"
import lab.notebook as nb  # No module named 'lab'? Open this notebook with ./lab notebook

nb.begin("06", lang="en")

# %% lang="pt"
import lab.notebook as nb  # No module named 'lab'? Abra este notebook com ./lab notebook

nb.begin("06", lang="pt")

# %% [markdown] lang="en"
# ## Two processes of one name
# Lesson 05 guards an outcome by id, state and worker name. A, which is `worker-a`, stalls; its lease ends; `worker-a` is
# restarted, and the new process, B, takes the document. Then the old one wakes up.

# %% [markdown] lang="pt"
# ## Dois processos com o mesmo nome
# Na lição 05, a condição do WHERE confere id, estado e nome do worker. A, que é o `worker-a`, trava; o prazo da reserva vence;
# o `worker-a` é reiniciado, e o processo novo, B, pega o documento. Aí o antigo acorda.

# %%
nb.sql("06_same_name", "c_waits", "c_recovers", "b_claims")
nb.ask("06_same_name", "a_finishes")
guess = ...  # a number of rows | um número de linhas

# %%
named = nb.play("06_same_name")
nb.answer(guess, len(named["a_finishes"].rows))
nb.claim("06_same_name", named)
nb.table(named, "c_reads")

# %% [markdown] lang="en"
# **Why.** The guard asks what the row says of its owner, and both say the same of themselves. B had found the document bad; its
# failure changed no row, and B must think that it is no longer the owner.
#
# ## The same story with a token
# Now every claim gets a number that no claim had before, and outcomes name it. Here it counts 1, 2, 3, so that you can type it; as
# installed it is random. B bears A's name again.

# %% [markdown] lang="pt"
# **Por quê.** A condição compara o que a linha diz do dono, e os dois processos dizem a mesma coisa de si. B tinha achado o
# documento ruim; a falha que ele gravou não mudou nenhuma linha, e B só pode concluir que já não é o dono.
#
# ## A mesma história com um token
# Agora cada reserva recebe um número que nenhuma outra teve, e o resultado só vale com ele. Aqui ele conta 1, 2, 3, para você poder
# digitá-lo; na instalação, é sorteado. B tem de novo o nome de A.

# %%
nb.sql("06_late_writes", "b_claims")
nb.ask("06_late_writes", "a_finishes")
guess = ...  # a number of rows | um número de linhas

# %%
fenced = nb.play("06_late_writes")
nb.answer(guess, len(fenced["a_finishes"].rows))
nb.ownership(fenced)
nb.claim("06_late_writes", fenced)
nb.events(fenced)

# %% [markdown] lang="en"
# **Why.** The recovery has voided token 1, and B's claim has put 2 in its place. Nothing that A knows fits the row any more, no
# matter how late A comes, and whether it finishes, fails or renews. Zero rows is its order to stop.
#
# ## By your WHERE clause
# Seven guards, each tried in five situations; each time a late worker writes that it failed. A cell is the number of rows it
# changed. In how many of the five does `id + status + worker` let it through?

# %% [markdown] lang="pt"
# **Por quê.** A recuperação anulou o token 1, e a reserva de B pôs o 2 no lugar. Nada do que A sabe combina com a linha, por
# mais tarde que A chegue, e tanto faz se conclui, falha ou renova. Zero linhas é a ordem de parar.
#
# ## Pela sua cláusula WHERE
# Sete condições, cada uma testada em cinco situações; em todas, um worker atrasado grava que falhou. Cada célula é o número de
# linhas que ele mudou. Em quantas das cinco `id + status + worker` deixa a escrita passar?

# %%
guess = ...  # a number from 0 to 5 | um número de 0 a 5

# %%
table = nb.truth_table()
clause = table.columns[0]
through = table[table[clause] == "… AND worker = …"].iloc[0, 1:6]
nb.answer(guess, sum(cell != "0" for cell in through))
table.set_index(clause)

# %%
nb.observe("06.truth_table", "06.token_and_version")

# %% [markdown] lang="en"
# **Why.** State, name and attempt describe the row, and a row can come to look the same twice. A token names one claim. So does
# a version that is never reset; but it moves with every change, so its owner must be told of each one or locks itself out.
#
# ## Change one argument: your own WHERE clause
# Many trust the deadline: "I write only while the lease holds." But whose lease? A worker may put in what its claim gave it:
# `documento_id`, `worker_id`, `tentativas`, `versao`, `token_reserva`.

# %% [markdown] lang="pt"
# **Por quê.** Estado, nome e tentativa descrevem a linha, e uma linha pode voltar a ter a mesma cara. Um token identifica uma
# reserva. Uma versão que nunca é zerada também; mas ela anda a cada mudança, e o dono que não souber de uma delas se tranca
# fora.
#
# ## Mude um argumento: a sua própria cláusula WHERE
# Muita gente confia no prazo: "só gravo enquanto a reserva valer". Mas a reserva de quem? Um worker pode usar o que a reserva
# lhe devolveu: `documento_id`, `worker_id`, `tentativas`, `versao`, `token_reserva`.

# %%
by_id = "documento_id = %(documento_id)s"
nb.truth_table(
    f"{by_id} AND reservado_ate > relogio()",
    f"{by_id} AND worker_id = %(worker_id)s AND reservado_ate > relogio()",
    f"{by_id} AND status = 'processando' AND token_reserva = %(token_reserva)s",
)

# %% [markdown] lang="en"
# **Why.** The deadline that A finds in the row is B's. The last clause is that of the lab's functions: token and state.
#
# ## Late, but not taken over
# A's lease ended half a minute ago, and no recovery has come by. A renews.

# %% [markdown] lang="pt"
# **Por quê.** O prazo que A encontra na linha é o de B. A última condição é a das funções do laboratório: token e estado.
#
# ## Atrasado, mas ninguém assumiu
# A reserva de A venceu há meio minuto, e nenhuma recuperação passou por ali. A renova.

# %%
nb.sql("06_not_taken_over", "c_looks")
nb.ask("06_not_taken_over", "a_renews")
guess = ...  # a number of rows | um número de linhas

# %%
late = nb.play("06_not_taken_over")
nb.answer(guess, len(late["a_renews"].rows))
nb.claim("06_not_taken_over", late)
nb.table(late, "c_reads")

# %% [markdown] lang="en"
# **Why.** A deadline tells others when they may take over; it takes nothing away by itself. As long as the token stands, no other
# worker has had the document, so there is nothing to destroy. If the recovery comes at the same moment, the row's lock decides.
#
# ## What the audit says
# Document 1 has seen a good deal: what is written down of it?

# %% [markdown] lang="pt"
# **Por quê.** O prazo diz aos outros a partir de quando podem assumir; sozinho, não tira nada de ninguém. Enquanto o token for
# o mesmo, nenhum outro worker teve o documento, e não há o que destruir. Se a recuperação vier na mesma hora, quem decide é o
# bloqueio da linha.
#
# ## O que a auditoria conta
# O documento 1 já passou por muita coisa: o que ficou registrado?

# %%
nb.sql("06_audit", "a_renews", "a_reads")
nb.ask("06_audit", "c_audits")
guess = ...  # a number of rows | um número de linhas

# %%
audited = nb.play("06_audit")
nb.answer(guess, len(audited["c_audits"].rows))
nb.claim("06_audit", audited)
nb.table(audited, "c_audits")

# %% [markdown] lang="en"
# **Why.** A renewal moves a deadline and a refused write moves nothing: neither is a change of state. The audit is where a refused
# worker learns what became of its token (or that its finish had got through, and only the answer was lost):

# %% [markdown] lang="pt"
# **Por quê.** Uma renovação muda o prazo, e uma escrita recusada não muda nada: nenhuma das duas troca o estado. É na auditoria
# que um worker recusado descobre o que houve com o seu token (ou que a conclusão tinha passado, e só a resposta se perdeu):

# %%
nb.sql("06_audit", "a_asks")
nb.table(audited, "a_asks")

# %% [markdown] lang="en"
# **What a production queue does.** It fences every write of an outcome and every heartbeat by a token from one place, looks at the
# number of rows changed, and leaves one row of audit a change. A fence guards the database only: what A sent to
# the outside world before it was refused has been sent (lesson 09).
#
# **What we simplified.** Time passes on the lab's clock. The truth table writes one outcome, a failure; a restarted worker is a
# session of the same name. The crash below is a killed server; a promoted standby was not tried.
#
# ## Surprises

# %% [markdown] lang="pt"
# **O que uma fila de produção faz.** Exige o token, gerado num lugar só, em toda gravação de resultado e em todo sinal de vida,
# confere o número de linhas alteradas e deixa uma linha de auditoria por mudança. O token só protege o banco: o que A mandou
# para o mundo externo antes da recusa já foi (lição 09).
#
# **O que simplificamos.** O tempo passa no relógio do laboratório. A tabela-verdade grava um só resultado, uma falha; um worker
# reiniciado é uma sessão com o mesmo nome. A queda abaixo é um servidor morto de repente; promover um standby não foi testado.
#
# ## Surpresas

# %%
nb.surprises("06")

# %% [markdown] lang="en"
# **Next:** 07, the heartbeat: how a worker keeps a document longer than one lease, and for how long it may.

# %% [markdown] lang="pt"
# **A seguir:** 07, o sinal de vida: como um worker fica com um documento além de uma reserva, e até quando pode.
