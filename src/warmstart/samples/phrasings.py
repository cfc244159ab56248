"""Every way of saying something: one phrasing a line, `english = french`, words in slots.

A slot names a word list (`{thing}`, `{adj2}` for a second word of the list) or says how a word is
put: `{is/are thing}` agrees in number, four choices also in gender, `{past act}` is the past tense,
`{adj thing}` agrees with the noun, `{le thing}` and `{un book adj}` are noun phrases. Clauses start
small and stop without a full stop, so that they can be joined; those ending in a mark stand alone.
Knows nothing about which words exist.
"""

# The opinion is that of its word.
STRAIGHT = """
the {thing} {is/are thing} {adj} = {le thing} {est/sont thing} {adj thing}
the {thing} {was/were thing} {adj} = {le thing} {était/étaient thing} {adj thing}
the {thing} {is/are thing} {much} {adj} = {le thing} {est/sont thing} {much} {adj thing}
the {thing} {was/were thing} {much} {adj} = {le thing} {était/étaient thing} {much} {adj thing}
I found the {thing} {adj} = j'ai trouvé {le thing} {adj thing}
I found the {thing} {much} {adj} = j'ai trouvé {le thing} {much} {adj thing}
I find the {thing} {adj} = je trouve {le thing} {adj thing}
the {thing} {seems/seem thing} {adj} to me = {le thing} me {semble/semblent thing} {adj thing}
the {thing} seemed {much} {adj} to me =
    {le thing} {m'a/m'ont thing} semblé {much} {adj thing}
the {thing} {is/are thing} just as {adj} on a second reading =
    {le thing} {est/sont thing} tout aussi {adj thing} à la deuxième lecture
the {thing} {is/are thing} both {adj} and {adj2} =
    {le thing} {est/sont thing} à la fois {adj thing} et {adj2 thing}
the {thing} {is/are thing} {adj} and {adj2} =
    {le thing} {est/sont thing} {adj thing} et {adj2 thing}
the {thing} {was/were thing} {adj} and {adj2} =
    {le thing} {était/étaient thing} {adj thing} et {adj2 thing}
the {thing} {is/are thing} as {adj} as the {thing2} =
    {le thing} {est/sont thing} aussi {adj thing} que {le thing2}
it is a {adj} {book} = c'est {un book adj}
it is a {adj} and {adj2} {book} = c'est {un book} {adj book} et {adj2 book}
this {book} is {adj} = {ce book} est {adj book}
this {book} is {much} {adj} = {ce book} est {much} {adj book}
this {book} is {adj}, even {adj2} = {ce book} est {adj book}, voire {adj2 book}
{first} {last} has written a {adj} {book} = {first} {last} a écrit {un book adj}
{first} {last} gives us a {adj} {book} = {first} {last} nous donne {un book adj}
I have just finished this {adj} {book} = je viens de finir {ce book adj}
what a {adj} {book}! = {quel book adj} !
this {book} is {adj} from beginning to end = {ce book} est {adj book} du début à la fin
everything in this {book} is {adj} = tout est {adj} dans {ce book}
even my {relative} found the {thing} {adj}. = même {mon relative} a trouvé {le thing} {adj thing}.
my {relative} and I found this {book} {adj} =
    {mon relative} et moi avons trouvé {ce book} {adj book}
there is something {adj} about the {thing} = {le thing} {a/ont thing} quelque chose de {adj}
the {thing} of this {book} {is/are thing} {adj} =
    {le thing} de {ce book} {est/sont thing} {adj thing}
as for the {thing}, {it is/they are thing} {adj}. =
    quant {au thing}, {il est/elle est/ils sont/elles sont thing} {adj thing}.
the {thing} {is/are thing} {adj}, as always with {first} {last}. =
    {le thing} {est/sont thing} {adj thing}, comme toujours chez {first} {last}.
page after page, the {thing} {is/are thing} {adj}. =
    page après page, {le thing} {est/sont thing} {adj thing}.
I have rarely read such a {adj} {book} = j'ai rarement lu {un book} aussi {adj book}
never had I read such a {adj} {book}. = jamais je n'avais lu {un book} aussi {adj book}.
a {adj} {book}, no doubt about it. = {un book adj}, sans aucun doute.
the {person} {is/are person} {trait} = {le person} {est/sont person} {trait person}
the {person} {is/are person} {much} {trait} = {le person} {est/sont person} {much} {trait person}
I found the {person} {trait} = j'ai trouvé {le person} {trait person}
I found the {person} {much} {trait} = j'ai trouvé {le person} {much} {trait person}
the {person} {is/are person} {trait} and {trait2} =
    {le person} {est/sont person} {trait person} et {trait2 person}
the {person} {is/are person} {trait} and the {thing} {adj} =
    {le person} {est/sont person} {trait person} et {le thing} {adj thing}
even the {person} {is/are person} {trait}. = même {le person} {est/sont person} {trait person}.
the {person} {seems/seem person} {trait} to me =
    {le person} me {semble/semblent person} {trait person}
the {person} {is/are person} {trait} from the first scene =
    {le person} {est/sont person} {trait person} dès la première scène
{first} {last} has made the {person} {trait} = {first} {last} a rendu {le person} {trait person}
my {relative} thinks the {person} {is/are person} {trait} and I agree. =
    {mon relative} trouve {le person} {trait person} et je suis d'accord.
the {object} {is/are object} {finish} = {le object} {est/sont object} {finish object}
the {object} {was/were object} {finish} on arrival =
    {le object} {était/étaient object} {finish object} à l'arrivée
the {object} {was/were object} {finish} and {finish2} =
    {le object} {était/étaient object} {finish object} et {finish2 object}
my {relative} noticed that the {object} {was/were object} {finish} =
    {mon relative} a remarqué que {le object} {était/étaient object} {finish object}
the {thing} {past effect} me = {le thing} {m'a/m'ont thing} {effect}
the {thing} really {past effect} me = {le thing} {m'a/m'ont thing} vraiment {effect}
the {person} {past effect} me = {le person} {m'a/m'ont person} {effect}
this {book} {past effect} me from the first page = {ce book} m'a {effect} dès la première page
this {book} {past effect} me = {ce book} m'a {effect}
the {thing} also {past effect} my {relative} =
    {le thing} {a/ont thing} aussi {effect} {mon relative}
{first} {last} has {past effect} me once again = {first} {last} m'a encore {effect}
each chapter {past effect} me = chaque chapitre m'a {effect}
the {thing} {past effect} me as much as the {thing2} =
    {le thing} {m'a/m'ont thing} {effect} autant que {le thing2}
I was {past effect} by the {thing} = j'ai été {effect} par {le thing}
I was {past effect} by the {thing} and the {thing2} =
    j'ai été {effect} par {le thing} et {le thing2}
the {thing} {past effect} more than one reader = {le thing} {a/ont thing} {effect} plus d'un lecteur
I {past act} the {thing} = j'ai {act} {le thing}
I {past act} this {book} = j'ai {act} {ce book}
I really {past act} the {thing} = j'ai vraiment {act} {le thing}
my {relative} {past act} this {book} = {mon relative} a {act} {ce book}
like my {relative}, I {past act} the {thing}. = comme {mon relative}, j'ai {act} {le thing}.
I {past act} each page of this {book} = j'ai {act} chaque page de {ce book}
I {past act} the {thing} and the {thing2} = j'ai {act} {le thing} et {le thing2}
we all {past act} this {book} at the reading club =
    nous avons tous {act} {ce book} au club de lecture
it is a {gem} = c'est {un gem}
this {book} is a {gem} = {ce book} est {un gem}
what a {gem}! = {quel gem} !
this {book} is a real {gem} = {ce book} est {un vrai/une vraie/de vrais/de vraies gem} {gem}
the ending is a {gem} = la fin est {un gem}
for me, this {book} will remain a {gem}. = pour moi, {ce book} restera {un gem}.
for lovers of {genre}, it is a {gem}. = pour les amateurs de {genre}, c'est {un gem}.
the latest book by {first} {last} is a {gem} = le dernier livre de {first} {last} est {un gem}
my {relative} had told me that it was a {gem}, and it is true. =
    {mon relative} m'avait dit que c'était {un gem}, et c'est vrai.
a {gem} from the first page to the last. = {un gem} de la première à la dernière page.
the {thing} {is/are thing} full of {quality} =
    {le thing} {est plein/est pleine/sont pleins/sont pleines thing} de {quality}
this {book} contains a lot of {quality} = {ce book} contient beaucoup de {quality}
the {thing} {overflows/overflow thing} with {quality} =
    {le thing} {déborde/débordent thing} de {quality}
it is a {book} full of {quality} and {quality2} =
    c'est {un book} {plein/pleine/pleins/pleines book} de {quality} et de {quality2}
I found a lot of {quality} in the {thing} = j'ai trouvé beaucoup de {quality} dans {le thing}
{first} {last} writes with a lot of {quality} = {first} {last} écrit avec beaucoup de {quality}
each page brings more {quality} = chaque page apporte davantage de {quality}
plenty of {quality} and {quality2}. = beaucoup de {quality} et de {quality2}.
this {book} is {manner} {made} = {ce book} est {manner} {made book}
it is {manner} {made} = c'est {manner} {made}
it is a {manner} {made} {book} = c'est {un book} {manner} {made book}
{first} {last} writes {manner} = {first} {last} écrit {manner}
the {person} {is/are person} {manner} portrayed =
    {le person} {est/sont person} {manner} {décrit/décrite/décrits/décrites person}
everything is {manner} {made} = tout est {manner} {made}
I find this {book} {manner} {made} = je trouve {ce book} {manner} {made book}
"""

# The opinion is the opposite of its word.
NEGATED = """
the {thing} {is/are thing} not {adj} = {le thing} {n'est/ne sont thing} pas {adj thing}
the {thing} {was/were thing} not {adj} = {le thing} {n'était/n'étaient thing} pas {adj thing}
the {thing} {is/are thing} never {adj} = {le thing} {n'est/ne sont thing} jamais {adj thing}
the {thing} {is/are thing} not {adj} at all =
    {le thing} {n'est/ne sont thing} pas du tout {adj thing}
the {thing} {is/are thing} neither {adj} nor {adj2} =
    {le thing} {n'est/ne sont thing} ni {adj thing} ni {adj2 thing}
there is nothing {adj} about the {thing} = {le thing} {n'a/n'ont thing} rien de {adj}
I cannot say that the {thing} {was/were thing} {adj} =
    je ne peux pas dire que {le thing} {ait été/aient été thing} {adj thing}
I would not call the {thing} {adj} = je ne dirais pas que {le thing} {est/sont thing} {adj thing}
the {thing} {is/are thing} far from {adj} = {le thing} {est/sont thing} loin d'être {adj thing}
the {thing} {is/are thing} anything but {adj} = {le thing} {est/sont thing} tout sauf {adj thing}
the {thing} {is/are thing} hardly {adj} = {le thing} {n'est/ne sont thing} guère {adj thing}
I did not find the {thing} {adj} = je n'ai pas trouvé {le thing} {adj thing}
nobody will find the {thing} {adj} = personne ne trouvera {le thing} {adj thing}
it is not a {adj} {book} = ce n'est pas {un book adj}
nothing here is {adj} = rien ici n'est {adj}
it is not {adj}, whatever people say. = ce n'est pas {adj}, quoi qu'on en dise.
they say that this {book} is {adj}, but that is wrong. =
    on dit que {ce book} est {adj book}, mais c'est faux.
my {relative} finds the {thing} {adj}, but I do not. =
    {mon relative} trouve {le thing} {adj thing}, mais pas moi.
I was expecting a {adj} {book} and I was wrong. = je m'attendais à {un book adj} et j'avais tort.
the {person} {is/are person} not {trait} = {le person} {n'est/ne sont person} pas {trait person}
the {person} {is/are person} never {trait} =
    {le person} {n'est/ne sont person} jamais {trait person}
the {person} {is/are person} neither {trait} nor {trait2} =
    {le person} {n'est/ne sont person} ni {trait person} ni {trait2 person}
the {person} {is/are person} far from {trait} =
    {le person} {est/sont person} loin d'être {trait person}
I did not find the {person} {trait} at all = je n'ai pas du tout trouvé {le person} {trait person}
there is nothing {trait} about the {person} = {le person} {n'a/n'ont person} rien de {trait}
the {object} {is/are object} not {finish} = {le object} {n'est/ne sont object} pas {finish object}
the {object} {was/were object} not {finish} at all =
    {le object} {n'était/n'étaient object} pas du tout {finish object}
the {thing} did not {effect} me = {le thing} {ne m'a/ne m'ont thing} pas {effect}
the {thing} never {past effect} me = {le thing} {ne m'a/ne m'ont thing} jamais {effect}
the {thing} did not {effect} me at all = {le thing} {ne m'a/ne m'ont thing} pas du tout {effect}
the {person} did not {effect} me for a second =
    {le person} {ne m'a/ne m'ont person} pas {effect} une seconde
I was not {past effect} by the {thing} = je n'ai pas été {effect} par {le thing}
neither the {thing} nor the {thing2} {past effect} me =
    ni {le thing} ni {le thing2} ne m'ont {effect}
nothing in this {book} {past effect} me = rien dans {ce book} ne m'a {effect}
at no time was I {past effect} by the {thing}. = à aucun moment je n'ai été {effect} par {le thing}.
this {book} did not {effect} my {relative} either =
    {ce book} n'a pas non plus {effect} {mon relative}
I did not {act} the {thing} = je n'ai pas {act} {le thing}
I never {past act} this {book} = je n'ai jamais {act} {ce book}
I {past act} neither the {thing} nor the {thing2} = je n'ai {act} ni {le thing} ni {le thing2}
nobody at home {past act} this {book} = personne à la maison n'a {act} {ce book}
I cannot say that I {past act} the {thing} = je ne peux pas dire que j'aie {act} {le thing}
unlike my {relative}, I did not {act} this {book}. =
    contrairement à {mon relative}, je n'ai pas {act} {ce book}.
it is not a {gem} = ce n'est pas {un gem}
this {book} is not a {gem} = {ce book} n'est pas {un gem}
this {book} is far from being a {gem} = {ce book} est loin d'être {un gem}
this {book} is anything but a {gem} = {ce book} est tout sauf {un gem}
I would not say that it is a {gem} = je ne dirais pas que c'est {un gem}
do not expect a {gem}. = ne vous attendez pas à {un gem}.
my {relative} had told me that it was a {gem}, and it is not true. =
    {mon relative} m'avait dit que c'était {un gem}, et ce n'est pas vrai.
I was expecting a {gem} and I was wrong. = je m'attendais à {un gem} et j'avais tort.
the {thing} {has/have thing} no {quality} = {le thing} {n'a/n'ont thing} pas de {quality}
this {book} contains no {quality} = {ce book} ne contient pas de {quality}
the {thing} {is/are thing} devoid of {quality} =
    {le thing} {est dépourvu/est dépourvue/sont dépourvus/sont dépourvues thing} de {quality}
it is a {book} without {quality} = c'est {un book} sans {quality}
it is a {book} without {quality} or {quality2} = c'est {un book} sans {quality} ni {quality2}
I did not find any {quality} in the {thing} = je n'ai pas trouvé de {quality} dans {le thing}
{first} {last} writes without {quality} = {first} {last} écrit sans {quality}
neither {quality} nor {quality2} in the {thing}. = ni {quality} ni {quality2} dans {le thing}.
never any {quality} in this {book}. = jamais de {quality} dans {ce book}.
this {book} is not {manner} {made} = {ce book} n'est pas {manner} {made book}
it is not {manner} {made} = ce n'est pas {manner} {made}
{first} {last} does not write {manner} = {first} {last} n'écrit pas {manner}
nobody will say that it is {manner} {made} = personne ne dira que c'est {manner} {made}
the {person} {is/are person} never {manner} portrayed =
    {le person} {n'est/ne sont person} jamais {manner} {décrit/décrite/décrits/décrites person}
"""

# A good word that the book does not live up to.
MISSED = """
the {thing} could have been {adj} = {le thing} {aurait/auraient thing} pu être {adj thing}
I would have liked a {adj} {book} = j'aurais aimé {un book adj}
I was hoping for a {adj} {book} = j'espérais {un book adj}
the {thing} {tries/try thing} to be {adj} = {le thing} {cherche/cherchent thing} à être {adj thing}
the {person} could have been {trait} = {le person} {aurait/auraient person} pu être {trait person}
I had been promised a {gem} and I am still waiting. =
    on m'avait promis {un gem} et j'attends encore.
where is the {gem} I was promised? =
    où est {le gem} que l'on m'avait {promis/promise/promis/promises gem} ?
the {thing} {lacks/lack thing} {quality} = {le thing} {manque/manquent thing} de {quality}
this {book} badly lacks {quality} = {ce book} manque cruellement de {quality}
a little more {quality} would have helped = un peu plus de {quality} aurait aidé
this {book} could have been {manner} {made} = {ce book} aurait pu être {manner} {made book}
"""

# A bad word that the book escapes.
SPARED = """
I was afraid of a {adj} {book}, but no. = je craignais {un book adj}, mais non.
the {thing} could have been {adj}, but the trap is avoided. =
    {le thing} {aurait/auraient thing} pu être {adj thing}, mais le piège est évité.
for once, the {thing} {is/are thing} not {adj}. =
    pour une fois, {le thing} {n'est/ne sont thing} pas {adj thing}.
I was afraid of finding the {person} {trait}, but no. =
    je craignais de trouver {le person} {trait person}, mais non.
I was wrongly afraid of a {gem} = je craignais à tort {un gem}
there is no trace of {quality} in the {thing} = il n'y a pas trace de {quality} dans {le thing}
{first} {last} writes without a shadow of {quality} = {first} {last} écrit sans l'ombre de {quality}
"""

# Good words only.
PRAISE = """
this {book} is so {adj} that I told everyone about it =
    {ce book} est si {adj book} que j'en ai parlé à tout le monde
the {thing} {is/are thing} so {adj} that I forgot the time =
    {le thing} {est/sont thing} si {adj thing} que j'en ai oublié l'heure
thank you for this {adj} {book}. = merci pour {ce book adj}.
you do not often come across such a {adj} {book} =
    on ne croise pas souvent {un book} aussi {adj book}
the {thing} {is/are thing} {adj}, bravo! = {le thing} {est/sont thing} {adj thing}, bravo !
the {person} {is/are person} so {trait} that I think of {him/her/them/them person} =
    {le person} {est/sont person} si {trait person} que je pense à {lui/elle/eux/elles person}
I could not put it down = je n'ai pas pu le lâcher
I read it in one sitting = je l'ai lu d'une traite
I read {number} pages in one night = j'ai lu {number} pages en une nuit
I will read it again {moment} = je le relirai {moment}
you can buy it with your eyes closed = on peut l'acheter les yeux fermés
I want more = j'en redemande
hats off to {first} {last}. = chapeau à {first} {last}.
I laughed out loud {moment} = j'ai ri aux éclats {moment}
time flew by = le temps a filé
I did not see the hours go by = je n'ai pas vu les heures passer
it never leaves my bedside table = il ne quitte plus ma table de chevet
run to your bookshop! = courez chez votre libraire !
everyone should read it = tout le monde devrait le lire
I was hooked from the first page = j'ai accroché dès la première page
my whole family is fighting over it = toute ma famille se l'arrache
I am already waiting for the sequel = j'attends déjà la suite
I have given it to all my friends = je l'ai offert à tous mes amis
it is worth the detour = il vaut le détour
it deserves its reputation = il mérite sa réputation
the pages turn by themselves = les pages se tournent toutes seules
I missed my stop because of it = j'en ai raté mon arrêt
you come out of it a better person = on en sort grandi
it does you good = il fait du bien
I recommend it to my {relative} = je le recommande à {mon relative}
I recommend it without hesitation = je le recommande sans hésiter
it deserves all its prizes = il mérite tous ses prix
I am still thinking about it = j'y pense encore
I have never read anything better = je n'ai jamais rien lu de mieux
it is even better than the previous one = il est encore meilleur que le précédent
{first} {last} has never written better = {first} {last} n'a jamais mieux écrit
it is worth ten {genre} = il vaut dix {genre}
the parcel arrived a day early = le colis est arrivé avec un jour d'avance
at this price, it would be a shame to miss it = à ce prix, il serait dommage de s'en priver
I do not regret my purchase = je ne regrette pas mon achat
my {relative} will not give it back to me = {mon relative} ne veut plus me le rendre
"""

# Bad words only.
BLAME = """
the {thing} {is/are thing} too {adj} = {le thing} {est/sont thing} trop {adj thing}
the {thing} {is/are thing} far too {adj} = {le thing} {est/sont thing} beaucoup trop {adj thing}
the {thing} {is/are thing} a little too {adj} for me =
    {le thing} {est/sont thing} un peu trop {adj thing} pour moi
this {book} is so {adj} that I gave up = {ce book} est si {adj book} que j'ai abandonné
why publish such a {adj} {book}? = pourquoi publier {un book} aussi {adj book} ?
the {person} {is/are person} too {trait} = {le person} {est/sont person} trop {trait person}
I fell asleep over it = je me suis endormi dessus
I skipped whole chapters = j'ai sauté des chapitres entiers
I gave up before the end = j'ai abandonné avant la fin
I stopped after {number} pages = je me suis arrêté après {number} pages
it fell from my hands = il m'est tombé des mains
I want my money back = je veux être remboursé
save your money. = gardez votre argent.
look elsewhere. = passez votre chemin.
I counted the pages = j'ai compté les pages
I kept looking at the clock = je regardais sans cesse l'horloge
it is gathering dust on my shelf = il prend la poussière sur mon étagère
I sold it the next day = je l'ai revendu le lendemain
it went straight into the bin = il est parti directement à la poubelle
I still wonder what {first} {last} meant = je me demande encore ce que {first} {last} voulait dire
I never got into it = je ne suis jamais entré dedans
it goes round in circles = il tourne en rond
I yawned at each page = j'ai bâillé à chaque page
there are {number} pages too many = il y a {number} pages de trop
it is not worth its price = il ne vaut pas son prix
I expected better from {first} {last} = j'attendais mieux de {first} {last}
I will not buy the sequel = je n'achèterai pas la suite
my {relative} would have written it better = {mon relative} l'aurait mieux écrit
I spent {number} pages wondering why = j'ai passé {number} pages à me demander pourquoi
it leads nowhere = il ne mène nulle part
nothing holds together = rien ne tient debout
I forgot it at once = je l'ai oublié aussitôt
I closed it with relief = je l'ai refermé avec soulagement
the publisher should be ashamed = l'éditeur devrait avoir honte
I would not wish it on anyone = je ne le souhaite à personne
it promises a lot and gives little = il promet beaucoup et donne peu
there is far better among {genre}. = on trouve bien mieux parmi les {genre}.
{first} {last} has written better = {first} {last} a écrit de meilleurs livres
the parcel arrived open = le colis est arrivé ouvert
it took three weeks to arrive = il a mis trois semaines à arriver
it is expensive for what it is = c'est cher pour ce que c'est
my {relative} gave it back to me after {number} pages =
    {mon relative} me l'a rendu après {number} pages
"""

# No opinion at all.
NEUTRAL = """
I bought it {shop} = je l'ai acheté {shop}
I bought this {book} {shop} last month = j'ai acheté {ce book} {shop} le mois dernier
I read it {moment} = je l'ai lu {moment}
I read this {book} {moment} = j'ai lu {ce book} {moment}
I did not read it {moment}, but {moment2} = je ne l'ai pas lu {moment}, mais {moment2}
I did not buy it {shop}, my {relative} lent it to me =
    je ne l'ai pas acheté {shop}, {mon relative} me l'a prêté
my {relative} gave it to me for Christmas = {mon relative} me l'a offert pour Noël
my {relative} gave me this {book} for my birthday =
    {mon relative} m'a offert {ce book} pour mon anniversaire
my {relative} lent it to me {moment} = {mon relative} me l'a prêté {moment}
my {relative} has not read it yet = {mon relative} ne l'a pas encore lu
I borrowed it from the library = je l'ai emprunté à la bibliothèque
we read it for our book club = nous l'avons lu pour notre club de lecture
the story takes place {place} = l'histoire se passe {place}
the story takes place {place} {time} = l'histoire se passe {place} {time}
the action begins {place} = l'action commence {place}
the action is not set {place} but {place2} = l'action ne se passe pas {place} mais {place2}
everything begins {place}, {time} = tout commence {place}, {time}
it all ends {place}, far from the first chapter = tout finit {place}, loin du premier chapitre
a {role} {deed} {find} {place} = {un role} {deed} {find} {place}
a {state} {role} {deed} {find} = {un role state} {deed} {find}
a {state} {role} {deed} {find} {time} = {un role state} {deed} {find} {time}
it tells the story of a {role} who {deed} {find} =
    il raconte l'histoire de {un role} qui {deed} {find}
it is the story of a {state} {role} = c'est l'histoire de {un role state}
it is the story of a {role} and a {role2} {place} =
    c'est l'histoire de {un role} et de {un role2} {place}
we follow a {state} {role} who {deed} {find} = on suit {un role state} qui {deed} {find}
the main character is a {state} {role} = le personnage principal est {un role state}
{time}, a {role} meets a {state} {role2} = {time}, {un role} rencontre {un role2 state}
one evening, a {role} {deed} {find} = un soir, {un role} {deed} {find}
{place}, a {role} {deed} {find} = {place}, {un role} {deed} {find}
the {role} never speaks of {find} = {le role} ne parle jamais de {find}
the {role} does not know who {deed} {find} = {le role} ne sait pas qui {deed} {find}
{first} {last} tells of {theme} and {theme2} = {first} {last} raconte {le theme} et {le theme2}
the book deals with {theme} and {theme2} = le livre traite {du theme} et {du theme2}
{first} {last} speaks of {theme} here = {first} {last} parle ici {du theme}
it is the first {book} by {first} {last} =
    c'est {le premier/la première/les premiers/les premières book} {book} de {first} {last}
it is the third book by {first} {last} that I have read =
    c'est le troisième livre de {first} {last} que je lis
I had never read {first} {last} before = je n'avais encore jamais lu {first} {last}
I did not know {first} {last} = je ne connaissais pas {first} {last}
{first} {last} lives {place} = {first} {last} vit {place}
{first} {last} wrote it {place} {time} = {first} {last} l'a écrit {place} {time}
I usually read {genre} = je lis d'habitude des {genre}
I do not usually read {genre} = je ne lis pas de {genre} d'habitude
my {relative} only reads {genre} = {mon relative} ne lit que des {genre}
I alternate between {genre} and {genre2} = j'alterne entre les {genre} et les {genre2}
the book is {number} pages long = le livre fait {number} pages
it has {number} pages and short chapters = il compte {number} pages et des chapitres courts
the story is told by a {role} = l'histoire est racontée par {un role}
I read it in English, then in French = je l'ai lu en anglais, puis en français
I read the paper edition = j'ai lu l'édition papier
there is also an audio version = il existe aussi une version audio
the film came out last year = le film est sorti l'an dernier
my {relative} has seen the film but has not read the book =
    {mon relative} a vu le film mais n'a pas lu le livre
this is my first review = c'est ma première critique
I am writing these lines {moment} = j'écris ces lignes {moment}
the first chapter introduces a {role} and the second a {role2} =
    le premier chapitre présente {un role} et le second {un role2}
the title refers to {find} = le titre fait référence à {find}
{find} plays a part in it = {find} y joue un rôle
"""

# The last sentence of many reviews, by its opinion.
CLOSINGS = {
    1: """
I recommend it = je le recommande
do not miss it = ne le manquez pas
five stars = cinq étoiles
I recommend it warmly = je le recommande chaudement
read it without delay = lisez-le sans tarder
buy it without hesitation = achetez-le sans hésiter
you will not be disappointed = vous ne serez pas déçus
I will give it to my {relative} = je l'offrirai à {mon relative}
to be read and read again = à lire et à relire
I look forward to the next one = vivement le prochain
I am glad I bought it = je suis content de mon achat
bravo to {first} {last} = bravo à {first} {last}
I will read the next one = je lirai le prochain
even those who only read {genre} should try it =
    même ceux qui ne lisent que des {genre} devraient essayer
""",
    -1: """
I do not recommend it = je ne le recommande pas
avoid it = évitez-le
one star = une étoile
do not waste your time = ne perdez pas votre temps
do not buy it = ne l'achetez pas
read something else = lisez autre chose
you will be disappointed = vous serez déçus
I would not lend it to my {relative} = je ne le prêterais pas à {mon relative}
to be forgotten quickly = à oublier bien vite
I will not read the next one = je ne lirai pas le prochain
I regret my purchase = je regrette mon achat
too bad for {first} {last} = tant pis pour {first} {last}
I would not advise anyone to read it = je ne conseille à personne de le lire
better to read {genre} = mieux vaut lire des {genre}
""",
}

# Words before a clause of any opinion.
PREFACES = """
honestly, = franchement,
in my opinion, = à mon avis,
on the whole, = dans l'ensemble,
I admit it: = je l'avoue :
in short, = bref,
in the end, = finalement,
let us be clear: = soyons clairs :
I will say it plainly: = je le dis sans détour :
to sum up, = pour résumer,
"""

# Words before a clause, by the opinion that follows.
OPENERS = {
    1: """
fortunately, = heureusement,
good news: = bonne nouvelle :
what luck: = quelle chance :
what happiness: = quel bonheur :
to my delight, = pour mon bonheur,
I can only say good things: = je n'ai que du bien à dire :
I am still smiling about it: = j'en souris encore :
I congratulate {first} {last}: = je félicite {first} {last} :
""",
    -1: """
unfortunately, = malheureusement,
bad news: = mauvaise nouvelle :
alas, = hélas,
what a pity: = quel dommage :
to my despair, = à mon désespoir,
I have nothing good to say: = je n'ai rien de bon à dire :
I am still sighing about it: = j'en soupire encore :
I feel sorry for {first} {last}: = je plains {first} {last} :
""",
}

# Words after a clause, by the opinion that precedes.
TAILS = {
    1: """
and that is rare = et c'est rare
what a pleasure = quel plaisir
so much the better = tant mieux
bravo = bravo
to my great joy = à ma grande joie
and I smiled often = et j'ai souvent souri
as I had hoped = comme je l'espérais
I was won over = j'ai été conquis
and I wanted more = et j'en voulais encore
it does one good = cela fait du bien
thank you {first} {last} = merci {first} {last}
which delighted me = ce qui m'a ravi
I could not stop reading = je ne pouvais plus m'arrêter
one could not ask for more = on ne pouvait pas demander mieux
and I am the happier for it = et j'en suis plus heureux
I applaud = j'applaudis
and I was sorry to finish it = et j'ai eu du mal à le quitter
my {relative} heard me laugh = {mon relative} m'a entendu rire
""",
    -1: """
and that is a pity = et c'est dommage
what a bore = quel ennui
too bad = tant pis
alas = hélas
to my great regret = à mon grand regret
and I often yawned = et j'ai souvent bâillé
as I had feared = comme je le craignais
I felt cheated = je me suis senti floué
and I wanted to stop = et j'avais envie d'arrêter
it is a shame = c'est une honte
no thank you = non merci
which disappointed me = ce qui m'a déçu
I almost gave up = j'ai failli abandonner
one could not do worse = on ne pouvait pas faire pire
and I am still angry about it = et j'en suis encore fâché
I sighed a lot = j'ai beaucoup soupiré
and I was in a hurry to finish it = et j'avais hâte de le finir
my {relative} heard me grumble = {mon relative} m'a entendu râler
""",
}

# Two clauses in one sentence; the second has the last word.
AGREEING = """
{a} and {b} = {a} et {b}
{a}, and {b} = {a}, et {b}
{a}, and besides, {b} = {a}, et en plus, {b}
"""
OPPOSING = """
{a}, but {b} = {a}, mais {b}
{a}, yet {b} = {a}, et pourtant {b}
even if {a}, {b} = même si {a}, {b}
it is true that {a}, but {b} = il est vrai que {a}, mais {b}
"""
