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
# # 05 · Lease
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, first write your guess in place of the three
# dots; *Run All* works without guesses. The sessions are real connections to a database of this notebook's own.

# %% [markdown] lang="pt"
# # 05 · Reserva com prazo
#
# Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva antes o seu palpite no lugar dos três
# pontos; *Run All* funciona sem palpites. As sessões são conexões reais a um banco só deste notebook.

# %% lang="en"
import lab.notebook as nb  # No module named 'lab'? Open this notebook with ./lab notebook

nb.begin("05", lang="en")

# %% lang="pt"
import lab.notebook as nb  # No module named 'lab'? Abra este notebook com ./lab notebook

nb.begin("05", lang="pt")

# %% [markdown] lang="en"
# ## A worker dies after its commit
# From here on the claim is a function, `reservar`, and writes a deadline. Time passes on the lab's own clock, which can be moved.
# A day after A's death B asks for ten documents.

# %% [markdown] lang="pt"
# ## Um worker morre depois do COMMIT
# Daqui em diante a reserva é uma função, `reservar`, e grava um prazo. O tempo passa no relógio do laboratório, que dá para
# adiantar. Um dia depois da morte de A, B pede dez documentos.

# %%
nb.sql("05_orphan", "a_claims", "c_kills", "c_moves")
nb.ask("05_orphan", "b_claims")
guess = ...  # a number of documents | um número de documentos

# %%
orphan = nb.play("05_orphan")
nb.answer(guess, len(orphan["b_claims"].rows))
nb.claim("05_orphan", orphan)
nb.table(orphan, "c_looks")

# %% [markdown] lang="en"
# **Why.** The mark outlives the worker; that was its purpose. A deadline is no lock and stops nobody. It only tells whoever
# looks that the worker is late.
#
# ## Who is late?
# The status says how many are in work, and says the same whoever is dead:

# %% [markdown] lang="pt"
# **Por quê.** A marca sobrevive ao worker; era para isso que ela servia. Um prazo não é bloqueio e não impede ninguém. Ele só
# conta, a quem olhar, que o worker está atrasado.
#
# ## Quem está atrasado?
# O status diz quantos documentos estão em andamento, e diz o mesmo quando há um worker morto:

# %%
deadline = nb.play("05_deadline")
nb.sql("05_deadline", "c_moves")
nb.table(deadline, "c_status")

# %%
nb.ask("05_deadline", "c_after")
guess = ...  # a number of orphans | um número de órfãos

# %%
nb.answer(guess, deadline["c_after"].one("orfaos"))
nb.claim("05_deadline", deadline)
nb.table(deadline, "c_after")

# %% [markdown] lang="en"
# **Why.** A status is what somebody wrote; a dead worker writes nothing more. A deadline was written beforehand, and passes by
# itself. That view is the query to put on a wall: waiting, running, orphaned, and how late the latest is.
#
# ## Everything back to pendente
# A is dead, B alive and within its time. The operator puts everything back.

# %% [markdown] lang="pt"
# **Por quê.** Um status é o que alguém gravou; um worker morto não grava mais nada. Um prazo foi gravado antes e vence sozinho.
# Essa view é a consulta para pôr num painel na parede: à espera, em execução, órfãos, e de quanto é o maior atraso.
#
# ## Tudo de volta a pendente
# A está morto, B está vivo e dentro do prazo. O operador devolve tudo.

# %%
nb.ask("05_blanket", "o_resets")
guess = ...  # a number of leases | um número de reservas

# %%
blanket = nb.play("05_blanket")
nb.answer(guess, blanket["o_resets"].column("ainda_valia").count("t"))
nb.claim("05_blanket", blanket)
nb.ownership(blanket)
nb.table(blanket, "o_resets")

# %% [markdown] lang="en"
# **Why.** `processando` says that somebody works, not that he is late, so B's document went back with A's. See B's lane: it worked
# to the end, and its finish changed zero rows, since C has the document.
#
# ## Recovery as a policy
# Who is late, how many at a time, how many attempts, and why: all of it is said in the call.

# %% [markdown] lang="pt"
# **Por quê.** `processando` diz que alguém trabalha, não que está atrasado, e o documento de B voltou junto com o de A. Veja a
# faixa de B: ele trabalhou até o fim, e a conclusão mudou zero linhas, porque o documento já é de C.
#
# ## Recuperação com regras
# Quem está atrasado, quantos por vez, quantas tentativas e por quê: tudo isso é dito na chamada.

# %%
nb.ask("05_recover", "o_recovers")
guess = ...  # a document's number | o número de um documento

# %%
recover = nb.play("05_recover")
nb.answer(guess, recover["o_recovers"].value)
nb.claim("05_recover", recover)
nb.table(recover, "o_looks")

# %% [markdown] lang="en"
# **Why.** B was never asked. Document 1 keeps its attempts, so that one that kills its workers does not come back for ever.
#
# ## How long a lease?
# A worker dies at once; recovery looks every ten seconds. For how many seconds does its document wait? Change the leases, or
# `every`.

# %% [markdown] lang="pt"
# **Por quê.** B nem foi consultado. O documento 1 mantém as tentativas, para que um que mata os seus workers não volte para
# sempre.
#
# ## De quanto tempo é o prazo?
# Um worker morre na hora; a recuperação olha de dez em dez segundos. Por quantos segundos o documento espera? Mude os prazos,
# ou `every`.

# %%
guess = ...  # seconds, with the lease of an hour | segundos, com a reserva de uma hora

# %% lang="en"
import pandas as pd

from lab.experiments import clock_skew

delays = {
    length: round(clock_skew.recovery_delay(nb.stage(), length, every="10 seconds") / 10) * 10
    for length in ("30 seconds", "5 minutes", "1 hour")
}
nb.answer(guess, delays["1 hour"])
pd.DataFrame({"seconds until recovered": delays}).rename_axis("lease")

# %% lang="pt"
import pandas as pd

from lab.experiments import clock_skew

delays = {
    length: round(clock_skew.recovery_delay(nb.stage(), length, every="10 seconds") / 10) * 10
    for length in ("30 seconds", "5 minutes", "1 hour")
}
nb.answer(guess, delays["1 hour"])
pd.DataFrame({"segundos até recuperar": delays}).rename_axis("reserva")

# %%
nb.observe("05.lease_length")

# %% [markdown] lang="en"
# **Why.** Nobody sees the death, only the deadline: the document waits for its lease to end, and then for the next look.
#
# ## Workers whose clocks are wrong
# Three workers, one two hours slow, one two hours fast, take sixty documents. First each computes its deadlines itself; how many
# leases have ended as soon as they are written?

# %% [markdown] lang="pt"
# **Por quê.** Ninguém vê a morte, só o prazo: o documento espera que a reserva vença e, depois, pela próxima olhada.
#
# ## Workers com o relógio errado
# Três workers, um com o relógio duas horas atrasado, outro com duas horas adiantado, pegam sessenta documentos. Primeiro, cada
# um calcula os seus prazos; quantas reservas já nascem vencidas?

# %%
guess = ...  # a number of leases | um número de reservas

# %% lang="en"
clocks = {
    "the workers' clocks": clock_skew.deadlines(nb.stage(), own_clocks=True),
    "the database's clock": clock_skew.deadlines(nb.stage(), own_clocks=False),
}
nb.answer(guess, clocks["the workers' clocks"].born_expired)
columns = ["leases", "born expired", "hours too long", "taken from the living"]
pd.DataFrame([vars(seen).values() for seen in clocks.values()], list(clocks), columns)

# %% lang="pt"
clocks = {
    "os relógios dos workers": clock_skew.deadlines(nb.stage(), own_clocks=True),
    "o relógio do banco": clock_skew.deadlines(nb.stage(), own_clocks=False),
}
nb.answer(guess, clocks["os relógios dos workers"].born_expired)
columns = ["reservas", "já vencidas", "horas a mais", "tiradas de vivos"]
pd.DataFrame([vars(seen).values() for seen in clocks.values()], list(clocks), columns)

# %%
nb.observe("05.skewed_clocks")

# %% [markdown] lang="en"
# **Why.** A worker says for how long, never until when; and who is late is judged by the same clock that set the deadline.
#
# ## Which of the database's clocks?

# %% [markdown] lang="pt"
# **Por quê.** O worker diz por quanto tempo, nunca até quando; e quem julga o atraso é o mesmo relógio que marcou o prazo.
#
# ## Qual dos relógios do banco?

# %%
nb.sql("05_frozen_now", "a_begin", "a_reads", "b_reads", "a_reads_again")
nb.ask("05_frozen_now", "a_compares")
guess = ...  # by now(): yes or no | pelo now(): sim ou não

# %%
frozen = nb.play("05_frozen_now")
nb.answer(guess, frozen["a_compares"].one("futuro_pelo_now"))
nb.claim("05_frozen_now", frozen)
nb.table(frozen, "a_counts")

# %% [markdown] lang="en"
# **Why.** `now()` names the moment at which the transaction began, so that all its statements agree on one time. Whoever waits for
# something inside a transaction needs the clock that goes on.
#
# **What a production queue does.** One clock, the database's; a deadline with every claim; a recovery job that runs every few
# seconds; and the view on a wall. What is still missing: A may only have been slow. When it comes back, its name is still a
# valid guard wherever the same name holds the document. That is the token of lesson 06.
#
# **What we simplified.** A death is a connection cut, or silence. A lease too short is the subject of lesson 07.
#
# ## Surprises

# %% [markdown] lang="pt"
# **Por quê.** `now()` é o momento em que a transação começou, para que todos os seus comandos concordem sobre a hora. Quem
# espera por algo dentro de uma transação precisa do relógio que continua andando.
#
# **O que uma fila de produção faz.** Um só relógio, o do banco; um prazo em cada reserva; uma recuperação que roda a cada
# poucos segundos; e a view num painel. O que ainda falta: talvez A só estivesse lento. Quando ele volta, o nome ainda passa no
# WHERE onde quem está com o documento tem o mesmo nome. Disso cuida o token da lição 06.
#
# **O que simplificamos.** Uma morte é uma conexão cortada, ou silêncio. Um prazo curto demais é assunto da lição 07.
#
# ## Surpresas

# %%
nb.surprises("05")

# %% [markdown] lang="en"
# **Next:** 06, the token: what A may still do when it comes back late.

# %% [markdown] lang="pt"
# **A seguir:** 06, o token: o que A ainda pode fazer quando volta atrasado.
