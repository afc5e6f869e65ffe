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
# # 09 · Effects
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, first write your guess in place of the three
# dots; *Run All* works without guesses. The sessions are real connections to a database of this notebook's own.

# %% [markdown] lang="pt"
# # 09 · Efeitos
#
# Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva antes o seu palpite no lugar dos três
# pontos; *Run All* funciona sem palpites. As sessões são conexões reais a um banco só deste notebook.

# %% lang="en"
import lab.notebook as nb  # No module named 'lab'? Open this notebook with ./lab notebook

nb.begin("09", lang="en")

# %% lang="pt"
import lab.notebook as nb  # No module named 'lab'? Abra este notebook com ./lab notebook

nb.begin("09", lang="pt")

# %% [markdown] lang="en"
# ## Work inside the database
# A books a value in another table and finishes, in one transaction. Its connection is cut before the `COMMIT`.

# %% [markdown] lang="pt"
# ## Trabalho dentro do banco
# A lança um valor em outra tabela e conclui, numa só transação. A conexão dele é cortada antes do `COMMIT`.

# %%
nb.sql("09_inside", "a_books", "a_finishes", "c_kills")
nb.ask("09_inside", "c_reads")
guess = ...  # a number of entries | um número de lançamentos

# %%
inside = nb.play("09_inside")
nb.answer(guess, inside["c_reads"].one("lancamentos"))
nb.claim("09_inside", inside)
nb.table(inside, "c_counts")

# %% [markdown] lang="en"
# **Why.** What can be rolled back needs nothing of what follows: work and finish are one transaction. The rest of this lesson is
# about what cannot.
#
# ## Work outside: unknown to the queue
# A writes down that it is about to call, calls, and is never heard of again. B takes over and finishes, just like that.

# %% [markdown] lang="pt"
# **Por quê.** O que pode ser desfeito por rollback não precisa de nada do que vem a seguir: trabalho e conclusão são uma
# transação. O resto desta lição trata do que não pode.
#
# ## Trabalho fora: desconhecido para a fila
# A grava que vai chamar, chama, e não dá mais notícias. B assume e conclui, sem mais.

# %%
nb.sql("09_unknown", "a_records", "c_recovers", "b_claims")
nb.ask("09_unknown", "b_finishes_blindly")
guess = ...  # a number of rows, or an SQLSTATE | um número de linhas, ou um SQLSTATE

# %%
unknown = nb.play("09_unknown")
blind = unknown["b_finishes_blindly"]
nb.answer(guess, blind.sqlstate or len(blind.rows))
nb.ownership(unknown)
nb.sql("09_unknown", "b_records", "b_finishes")
nb.claim("09_unknown", unknown)
nb.table(unknown, "c_reads")

# %% [markdown] lang="en"
# **Why.** The lease says that A is late, never that its call was not executed. Two things outlive A: the stage, which says that a
# call may be out, and the key of the operation, the same at every attempt, by which the receiver can be asked.
#
# ## When no attempt is left
# Three documents had one attempt, and it is over.

# %% [markdown] lang="pt"
# **Por quê.** A reserva diz que A está atrasado, nunca que a chamada não foi executada. Duas coisas sobrevivem a A: a etapa,
# que diz que pode haver uma chamada por aí, e a chave da operação, a mesma em toda tentativa, com a qual dá para perguntar ao
# receptor.
#
# ## Quando não resta tentativa
# Três documentos tinham uma tentativa, e ela acabou.

# %%
nb.sql("09_exhausted", "a_calls_second", "a_calls_third", "a_obtains_third")
nb.ask("09_exhausted", "c_recovers")
guess = ...  # falhou, conciliacao or concluido | falhou, conciliacao ou concluido

# %%
exhausted = nb.play("09_exhausted")
nb.answer(guess, exhausted["c_recovers"].column("status")[1])
nb.claim("09_exhausted", exhausted)
nb.table(exhausted, "c_reads")

# %% [markdown] lang="en"
# **Why.** "No attempt left" says nothing about the world outside; the stage does. What was never called may fail; what has its
# result is finished, since its worker said that the call was all there was to do (`p_chamada_basta`); and of the one between the two
# only the receiver knows, so people have to ask.
#
# ## Now real ones are killed
# Four documents, a receiver in a process of its own with a ledger of its own, and workers (`./lab worker`) that are killed with
# SIGKILL at the worst moments. What counts is what stands in the queue's tables and the receiver's ledger when all have ended.
# A worker is killed after its call. How many effects does the receiver execute for the four documents?

# %% [markdown] lang="pt"
# **Por quê.** "Sem tentativas" não diz nada sobre o mundo externo; quem diz é a etapa. O que nunca foi chamado pode falhar; o
# que já tem o resultado é concluído, porque o worker disse que a chamada era tudo o que havia a fazer (`p_chamada_basta`); e do que
# está entre os dois só o receptor sabe: uma pessoa precisa perguntar.
#
# ## Agora, workers de verdade são mortos
# Quatro documentos, um receptor em processo próprio, com registro próprio, e workers (`./lab worker`) mortos com SIGKILL nos
# piores momentos. O que conta é o que está nas tabelas da fila e no registro do receptor quando tudo terminou. Um worker é
# morto depois da chamada. Quantos efeitos o receptor executa para os quatro documentos?

# %%
guess = ...  # a number of effects | um número de efeitos

# %%
kills = nb.drill("kill_before_commit", "kill_after_claim", "kill_before_call", "kill_after_call")
nb.answer(guess, kills["kill_after_call"].effects)
nb.claim("09.killed_workers", kills)
nb.outcomes(kills)

# %% [markdown] lang="en"
# **Why.** Before the commit the server rolls the claim back. After it the lease ends, and the worker that takes over looks at the stage:
# not called, so it calls; unknown, so it asks. (The lab's clock is moved past the lease, so that no worker waits for it.)
#
# ## A true zombie
# SIGSTOP stops a worker just before its call; another one takes over and finishes everything; SIGCONT. The worker knows of nothing:
# it sends its call. What stops it?

# %% [markdown] lang="pt"
# **Por quê.** Antes do COMMIT, o servidor desfaz a reserva. Depois dele, a reserva vence, e o worker que assume olha a etapa:
# não chamado, ele chama; desconhecido, ele pergunta. (O relógio do laboratório é adiantado além da reserva, para que nenhum
# worker espere por ela.)
#
# ## Um zumbi de verdade
# SIGSTOP para um worker pouco antes da chamada; outro assume e termina tudo; SIGCONT. O worker não sabe de nada: envia a
# chamada. O que o impede?

# %%
guess = ...  # token, key or none | token, chave ou nada

# %% lang="en"
zombies = nb.drill("zombie", "zombie_after_call")
sent = zombies["zombie"]
twice = sent.effects > sent.documents
nb.answer(guess, "none" if twice else "key" if sent.repeated_calls else "token")
nb.claim("09.zombies", zombies)
nb.outcomes(zombies)

# %% lang="pt"
zombies = nb.drill("zombie", "zombie_after_call")
sent = zombies["zombie"]
twice = sent.effects > sent.documents
nb.answer(guess, "nada" if twice else "chave" if sent.repeated_calls else "token")
nb.claim("09.zombies", zombies)
nb.outcomes(zombies)

# %% [markdown] lang="en"
# **Why.** A fence in the database cannot stop a call that is on its way: it is the receiver that knows the key and gives the first
# result back. The token then refuses what the zombie writes.
#
# ## Change one argument
# The same zombie, and a receiver that knows no keys. Then stop it elsewhere: `locked`, `claimed`, `called`, `obtained`; or kill it.

# %% [markdown] lang="pt"
# **Por quê.** Uma proteção no banco não detém uma chamada que já está a caminho: quem conhece a chave é o receptor, e ele
# devolve o primeiro resultado. Depois, o token recusa o que o zumbi grava.
#
# ## Mude um argumento
# O mesmo zumbi, e um receptor que não usa chaves. Depois, pare-o em outro ponto: `locked`, `claimed`, `called`, `obtained`; ou
# mate-o.

# %%
guess = ...  # a number of effects | um número de efeitos

# %%
keyless = nb.interrupt("calling", killed=False, keys=False)
nb.answer(guess, keyless["calling"].effects)
nb.outcomes(keyless)

# %% [markdown] lang="en"
# ## Take the defences away
# One at a time, in the situation that each is made for; what is taken from the protocol is taken from a copy of it. A cell is the
# number of documents damaged. First the stage: a worker is killed after its call, and the receiver knows no keys, but can be asked.
# Of four documents, how many are damaged without the stage?

# %% [markdown] lang="pt"
# ## Tire as defesas
# Uma por vez, na situação para a qual cada uma foi feita; o que se tira do protocolo é tirado de uma cópia dele. Cada célula é
# o número de documentos danificados. Primeiro a etapa: um worker é morto depois da chamada, e o receptor não usa chaves, mas
# responde a consultas. De quatro documentos, quantos são danificados sem a etapa?

# %%
guess = ...  # a number of documents | um número de documentos

# %%
live = nb.defences("stage")
nb.answer(guess, live.row("stage").without_it.total)
nb.claim("09.defence_matrix", live)
nb.damage(live)

# %% [markdown] lang="en"
# And all of them, as recorded in `data/expected/09_effects/defence_matrix.json`: not run now.
# `nb.damage(nb.defences())` holds them live, which takes a minute or so.

# %% [markdown] lang="pt"
# E todas elas, como foram gravadas em `data/expected/09_effects/defence_matrix.json`: não rodaram agora.
# `nb.damage(nb.defences())` roda todas ao vivo, em um minuto, mais ou menos.

# %%
from lab.drills.ablation import recorded

nb.damage(recorded())

# %% [markdown] lang="en"
# **Why.** None of them does another's work. Lease and recovery find what is orphaned. The token fences the table, the key the world
# outside. The stage replaces a blind call by a question, which is all there is where a receiver knows no keys. Zero rows, obeyed,
# keep a worker from calling for what it has lost. The heartbeat tells slow from dead. The savepoint keeps one document's failure its own.
#
# **What a production queue does.** The same stages and one key an operation, sent with every attempt. It asks before it calls
# again, keeps keys for longer than documents (lesson 20, to come), and gives what cannot be known to people (lesson 10).
#
# **What we simplified.** One receiver, on the same machine; it keeps its ledger for ever. A call has one effect and no reversal.
# In the scenarios for psql what the receiver answers is written into the script (`R-000001`); the drills ask a real one.
#
# ## Surprises

# %% [markdown] lang="pt"
# **Por quê.** Nenhuma faz o trabalho da outra. Prazo e recuperação encontram o que ficou órfão. O token protege a tabela; a
# chave, o mundo externo. A etapa troca uma chamada às cegas por uma pergunta, que é tudo o que resta onde o receptor não usa
# chaves. Zero linhas, quando o worker obedece, impedem que ele chame pelo que já perdeu. O sinal de vida separa o lento do
# morto. O savepoint deixa a falha de um documento só com ele.
#
# **O que uma fila de produção faz.** As mesmas etapas e uma chave por operação, enviada em toda tentativa. Pergunta antes de
# chamar de novo, guarda chaves por mais tempo que documentos (lição 20, por vir) e entrega a pessoas o que não dá para saber
# (lição 10).
#
# **O que simplificamos.** Um só receptor, na mesma máquina; ele guarda o registro para sempre. Uma chamada tem um efeito e
# nenhum estorno. Nos cenários para o psql, o que o receptor responde está escrito no script (`R-000001`); os ensaios perguntam
# a um de verdade.
#
# ## Surpresas

# %%
nb.surprises("09")

# %% [markdown] lang="en"
# **Next:** 10, operators: pause, resume, confirm, requeue, and who may do what.

# %% [markdown] lang="pt"
# **A seguir:** 10, operadores: pausar, retomar, confirmar, reenfileirar, e quem pode o quê.
