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
# # 07 · The heartbeat
#
# Run the cells from top to bottom (Shift-Enter). Where a cell says `guess = ...`, first write your guess in place of the three
# dots; *Run All* works without guesses. The sessions are real connections to a database of this notebook's own.

# %% [markdown] lang="pt"
# # 07 · Sinal de vida
#
# Rode as células de cima para baixo (Shift-Enter). Onde houver `guess = ...`, escreva antes o seu palpite no lugar dos três
# pontos; *Run All* funciona sem palpites. As sessões são conexões reais a um banco só deste notebook.

# %% lang="en"
import lab.notebook as nb  # No module named 'lab'? Open this notebook with ./lab notebook

nb.begin("07", lang="en")

# %% lang="pt"
import lab.notebook as nb  # No module named 'lab'? Abra este notebook com ./lab notebook

nb.begin("07", lang="pt")

# %% [markdown] lang="en"
# ## The work is longer than the lease
# The work takes eight minutes, the lease lasts six. Time passes on the lab's clock, which a session moves on. A is well,
# and at work. No worker has crashed.

# %% [markdown] lang="pt"
# ## O trabalho dura mais que a reserva
# O trabalho leva oito minutos, a reserva dura seis. O tempo passa no relógio do laboratório, que uma sessão adianta. A está
# bem, e trabalhando. Nenhum worker caiu.

# %%
nb.sql("07_too_short", "a_claims", "c_waits", "c_recovers", "b_claims", "a_acts", "a_finishes")
nb.ask("07_too_short", "c_counts")
guess = ...  # a number of effects | um número de efeitos

# %%
short = nb.play("07_too_short")
nb.answer(guess, short["c_counts"].one("efeitos"))
nb.claim("07_too_short", short)
nb.ownership(short)
nb.events(short)

# %% [markdown] lang="en"
# **Why.** From outside, slow and dead look alike. The token refuses A's finish, so the table is right; but the effect was out in
# the world before. A fence guards the row, not the world.
#
# ## The same work, renewed
# H is A's heartbeat: a second connection, which does nothing but call `renovar` with A's token.

# %% [markdown] lang="pt"
# **Por quê.** Visto de fora, lento e morto são iguais. O token recusa a conclusão de A, e a tabela fica certa; mas o efeito já
# estava no mundo. O token protege a linha, não o mundo.
#
# ## O mesmo trabalho, com renovação
# H é o sinal de vida de A: uma segunda conexão, que só chama `renovar` com o token de A.

# %%
nb.sql("07_renewed", "h_beats", "c_waits_more", "c_recovers")
nb.ask("07_renewed", "b_claims")
guess = ...  # a document's number | o número de um documento

# %%
renewed = nb.play("07_renewed")
nb.answer(guess, renewed["b_claims"].one("documento_id"))
nb.claim("07_renewed", renewed)
nb.ownership(renewed)
nb.table(renewed, "c_counts")

# %% [markdown] lang="en"
# **Why.** A deadline is a promise that can be renewed. Each beat says "alive" to every session that looks at the row, so the lease need
# not guess how long the work takes.
#
# ## Whose renewal counts?
# The renewal asks for document and token, as every outcome does. Five renewals: one by the owner, four by others or too late.

# %% [markdown] lang="pt"
# **Por quê.** Um prazo é uma promessa que pode ser renovada. Cada sinal diz "vivo" a toda sessão que olhar a linha, e a reserva
# não precisa adivinhar quanto tempo o trabalho leva.
#
# ## De quem vale a renovação?
# A renovação pede documento e token, como todo resultado. São cinco renovações: uma do dono, quatro de outros ou tarde demais.

# %%
nb.ask("07_only_owner", "a_renews_late")
guess = ...  # how many rows it changes | quantas linhas muda

# %%
owner = nb.play("07_only_owner")
nb.answer(guess, len(owner["a_renews_late"].rows))
nb.claim("07_only_owner", owner)
nb.events(owner)

# %% [markdown] lang="en"
# **Why.** Zero rows is an order: stop, the document is not yours. A heartbeat that ignores it is of no use. (A lease that has
# passed may still be renewed as long as no worker took the document over: lesson 06 shows why that is safe.)
#
# ## Not for ever
# The heartbeat has a connection, perhaps a thread, of its own. So it goes on beating when the work hangs.

# %% [markdown] lang="pt"
# **Por quê.** Zero linhas é uma ordem: pare, o documento não é seu. Um sinal de vida que ignora isso não serve para nada. (Uma
# reserva vencida ainda pode ser renovada enquanto nenhum worker tiver assumido o documento: a lição 06 mostra por que isso é
# seguro.)
#
# ## Não para sempre
# O sinal de vida tem uma conexão, talvez uma thread, só dele. Por isso continua batendo quando o trabalho trava.

# %%
nb.ask("07_maximum", "h_beats_at_12")
guess = ...  # yes or no | sim ou não

# %%
longest = nb.play("07_maximum")
nb.answer(guess, longest["h_beats_at_12"].one("no_limite"))
nb.ask("07_maximum", "h_beats_at_15")
guess = ...  # a number of rows | um número de linhas

# %%
nb.answer(guess, len(longest["h_beats_at_15"].rows))
nb.claim("07_maximum", longest)
nb.ownership(longest)

# %% [markdown] lang="en"
# **Why.** `renovar` never sets a deadline beyond `iniciado_em + tempo_maximo()`. At minute 12 it asked for five minutes and got
# three; from minute 15 on it gets nothing, and the recovery takes the document like any other that is late.
#
# ## How long a lease?
# Long enough for the work, or it runs twice; no longer, or a dead worker's document lies idle. So measure. One worker takes 400
# documents through the queue; its work is a sleep of 3 ms as a rule, and five times that for one in a hundred. One half of the
# documents gives the leases, the other half is to judge them. The budget is the time that 99 of 100 works take, and a margin for
# network and scheduling. But first: how many of 200 outlive a lease of the median?

# %% [markdown] lang="pt"
# **Por quê.** `renovar` nunca põe um prazo além de `iniciado_em + tempo_maximo()`. No minuto 12, pediu cinco minutos e ganhou
# três; a partir do minuto 15, não ganha nada, e a recuperação pega o documento como qualquer outro atrasado.
#
# ## De quanto tempo é a reserva?
# O bastante para o trabalho, ou ele roda duas vezes; não mais que isso, ou o documento de um worker morto fica parado. Então
# meça. Um worker passa 400 documentos pela fila; o trabalho é um sleep de 3 ms, em regra, e cinco vezes isso em um de cada cem.
# Metade dos documentos define os prazos, e a outra metade os julga. O orçamento é o tempo que 99 de cada 100 trabalhos levam,
# mais uma folga para rede e escalonamento. Antes disso: de 200 documentos, quantos passam de um prazo igual à mediana?

# %%
guess = ...  # a number of documents | um número de documentos

# %% lang="en"
import pandas as pd

from lab.experiments import lease_budget

measured = lease_budget.measure(nb.stage().conninfo, documents=400)
planned, judged = measured.halves
leases = {
    "median": lease_budget.percentile(planned.held, 50),
    "95 of 100": lease_budget.percentile(planned.held, 95),
    "the budget": planned.lease,
    "ten times the budget": 10 * planned.lease,
}
rows = []
for name, lease in leases.items():
    rows.append((name, f"{1000 * lease:.1f} ms", judged.overruns(lease)))
nb.answer(guess, judged.overruns(leases["median"]))
columns = ["lease", "lease lasts", "documents that outlast it"]
pd.DataFrame(rows, columns=columns).set_index("lease")

# %% lang="pt"
import pandas as pd

from lab.experiments import lease_budget

measured = lease_budget.measure(nb.stage().conninfo, documents=400)
planned, judged = measured.halves
leases = {
    "mediana": lease_budget.percentile(planned.held, 50),
    "95 de 100": lease_budget.percentile(planned.held, 95),
    "o orçamento": planned.lease,
    "dez vezes o orçamento": 10 * planned.lease,
}
rows = []
for name, lease in leases.items():
    rows.append((name, f"{1000 * lease:.1f} ms", judged.overruns(lease)))
nb.answer(guess, judged.overruns(leases["mediana"]))
columns = ["reserva", "duração", "documentos que passam dela"]
pd.DataFrame(rows, columns=columns).set_index("reserva")

# %% lang="en"
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(8.3, 2.6), layout="constrained")
axes.hist([1000 * seconds for seconds in judged.held], bins=60, color="#9bbbd6")
red = "#c0392b"
top = axes.get_xaxis_transform()
for name, lease in list(leases.items())[:3]:
    axes.axvline(1000 * lease, color=red, linewidth=1.2)
    axes.text(1000 * lease, 0.96, f" {name}", transform=top, va="top", size=8, color=red)
axes.set_xlim(right=1150 * max(planned.lease, *judged.held))
axes.set_xlabel("ms from claim to finish, by the database's clock")
axes.set_ylabel("documents")
axes.yaxis.set_major_locator(plt.MaxNLocator(integer=True))
axes.spines[["top", "right"]].set_visible(False)

# %% lang="pt"
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(8.3, 2.6), layout="constrained")
axes.hist([1000 * seconds for seconds in judged.held], bins=60, color="#9bbbd6")
red = "#c0392b"
top = axes.get_xaxis_transform()
for name, lease in list(leases.items())[:3]:
    axes.axvline(1000 * lease, color=red, linewidth=1.2)
    axes.text(1000 * lease, 0.96, f" {name}", transform=top, va="top", size=8, color=red)
axes.set_xlim(right=1150 * max(planned.lease, *judged.held))
axes.set_xlabel("ms da reserva à conclusão, pelo relógio do banco")
axes.set_ylabel("documentos")
axes.yaxis.set_major_locator(plt.MaxNLocator(integer=True))
axes.spines[["top", "right"]].set_visible(False)

# %%
nb.observe("07.budget")

# %% [markdown] lang="en"
# **Why.** A lease without a heartbeat has to cover the longest work. With one it has to cover a few beats, so that one lost
# beat costs nothing: beat every third of the lease, and let the maximum run time bound the work.
#
# **What a production queue does.** A lease of a minute or so, a heartbeat on a connection of its own, the worker stopped as soon as
# a beat changes no row, and an effect that bears being asked for twice all the same (lesson 09).
#
# **What we simplified.** The lab moves its clock; no session waits for eight minutes. The measured work sleeps.
#
# ## Surprises

# %% [markdown] lang="pt"
# **Por quê.** Sem sinal de vida, a reserva tem de cobrir o trabalho mais longo. Com ele, tem de cobrir alguns sinais, para que
# perder um não custe nada: renove a cada terço da reserva e deixe o tempo máximo limitar o trabalho.
#
# **O que uma fila de produção faz.** Uma reserva de um minuto, mais ou menos, um sinal de vida em conexão própria, o worker
# parado assim que uma renovação não muda nenhuma linha, e, ainda assim, um efeito que aguenta ser pedido duas vezes (lição 09).
#
# **O que simplificamos.** O laboratório adianta o relógio; nenhuma sessão espera oito minutos. O trabalho medido é um sleep.
#
# ## Surpresas

# %%
nb.surprises("07")

# %% [markdown] lang="en"
# **Next:** 08, failures: what is worth trying again, and when.

# %% [markdown] lang="pt"
# **A seguir:** 08, falhas: o que vale a pena tentar de novo, e quando.
