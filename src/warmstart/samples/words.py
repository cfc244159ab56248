"""The neutral words: what reviews speak of without taking sides, each with its French counterpart.

Written like the lists of opinions: `english = french`, frequent first, nouns with their gender
(`mp` and `fp` when plural). Names are the same in both languages. Knows nothing about sentences.
"""

NOUNS = {
    "thing": """
        plot = intrigue f; story = histoire f; style = style m; ending = fin f; writing = écriture f
        beginning = début m; dialogues = dialogues mp; pace = rythme m
        descriptions = descriptions fp; atmosphere = atmosphère f; setting = décor m
        translation = traduction f; tone = ton m; first part = première partie f
        second half = seconde moitié f; last chapter = dernier chapitre m; chapters = chapitres mp
        narration = narration f; subject = sujet m; structure = structure f; language = langue f
        twists = rebondissements mp; last pages = dernières pages fp; prose = prose f
        outcome = dénouement m; world = univers m; prologue = prologue m
        love scenes = scènes d'amour fp; flashbacks = retours en arrière mp; epilogue = épilogue m
        preface = préface f; vocabulary = vocabulaire m; battle scenes = scènes de bataille fp
        illustrations = illustrations fp; first pages = premières pages fp; title = titre m
        family secrets = secrets de famille mp; metaphors = métaphores fp; notes = notes fp
        letters = lettres fp
    """,
    "person": """
        characters = personnages mp; hero = héros m; heroine = héroïne f; narrator = narrateur m
        main character = personnage principal m; detective = détective m; villain = méchant m
        secondary characters = personnages secondaires mp; inspector = inspecteur m
        grandmother = grand-mère f; children = enfants mp; two sisters = deux sœurs fp
        lovers = amoureux mp; young girl = jeune fille f; old man = vieil homme m; queen = reine f
        killer = assassin m; suspects = suspects mp; neighbours = voisins mp; witch = sorcière f
    """,
    "object": """
        cover = couverture f; binding = reliure f; paper = papier m; packaging = emballage m
        dust jacket = jaquette f; copy = exemplaire m; box set = coffret m; edition = édition f
        bookmark = marque-page m
    """,
    "book": """
        book = livre m; novel = roman m; thriller = thriller m; work = ouvrage m; tale = récit m
        story = histoire f; saga = saga f; essay = essai m; biography = biographie f
        fable = fable f; detective novel = roman policier m; investigation = enquête f
        comic = bande dessinée f; fairy tale = conte m; collection = recueil m
        short story = nouvelle f; diary = journal m; historical novel = roman historique m
        trilogy = trilogie f; chronicle = chronique f; epic = épopée f; satire = satire f
        travel book = récit de voyage m; album = album m; autobiography = autobiographie f
        anthology = anthologie f
    """,
    "relative": """
        sister = sœur f; mother = mère f; brother = frère m; husband = mari m; wife = femme f
        daughter = fille f; son = fils m; father = père m; grandmother = grand-mère f
        grandfather = grand-père m; neighbour = voisine f; colleague = collègue m; aunt = tante f
        uncle = oncle m; best friend = meilleure amie f; cousin = cousin m; niece = nièce f
        nephew = neveu m; bookseller = libraire m; teacher = professeur m; boss = patron m
        godmother = marraine f; flatmate = colocataire m; dentist = dentiste m
        mother-in-law = belle-mère f; hairdresser = coiffeuse f
    """,
    "theme": """
        love = amour m; grief = deuil m; friendship = amitié f; memory = mémoire f; war = guerre f
        exile = exil m; childhood = enfance f; family = famille f; time = temps m; work = travail m
        revenge = vengeance f; old age = vieillesse f; freedom = liberté f; money = argent m
        nature = nature f; faith = foi f; jealousy = jalousie f; power = pouvoir m
        lies = mensonge m; silence = silence m; solitude = solitude f; the sea = mer f
        hunger = faim f; ambition = ambition f
    """,
    "role": """
        baker = boulanger m; sailor = marin m; nurse = infirmière f; doctor = médecin m
        violinist = violoniste f; watchmaker = horloger m; painter = peintre m; lawyer = avocate f
        journalist = journaliste f; fisherman = pêcheur m; gardener = jardinier m; widow = veuve f
        soldier = soldat m; student = étudiante f; thief = voleur m; dancer = danseuse f
        orphan = orphelin m; policeman = policier m; seamstress = couturière f; priest = prêtre m
        blacksmith = forgeron m; librarian = bibliothécaire f; postman = facteur m; spy = espion m
        duchess = duchesse f; pianist = pianiste m; shepherd = berger m; translator = traductrice f
        archaeologist = archéologue m; pharmacist = pharmacienne f; butcher = boucher m
        beekeeper = apiculteur m; lighthouse keeper = gardien de phare m; judge = juge m
        magician = magicien m; midwife = sage-femme f; chess player = joueur d'échecs m
        governess = gouvernante f; photographer = photographe f; taxi driver = chauffeur de taxi m
        locksmith = serrurier m; singer = chanteuse f; surgeon = chirurgien m; cook = cuisinière f
        monk = moine m; explorer = explorateur m; astronomer = astronome f; carpenter = menuisier m
        ambassador = ambassadeur m; clockmaker's daughter = fille d'horloger f; knight = chevalier m
        perfume maker = parfumeur m; botanist = botaniste f; circus clown = clown de cirque m
    """,
}

ADJECTIVES = {
    "state": """
        young = ^jeune; shy = timide; lonely = solitaire; mysterious = mystérieux; Italian = italien
        silent = silencieux; famous = célèbre; Russian = russe; amnesiac = amnésique
        stubborn = têtu; exiled = exilé; ruined = ruiné; blind = aveugle; Breton = breton/bretonne
        ageing = vieillissant; absent-minded = distrait; Portuguese = portugais; retired = retraité
        Irish = irlandais; sleepless = insomniaque; unemployed = désœuvré; left-handed = gaucher
    """,
    "made": """
        written = écrit; told = raconté; built = construit; translated = traduit; paced = rythmé
        documented = documenté; imagined = imaginé; illustrated = illustré; conducted = conduit
        edited = édité
    """,
}

PHRASES = {
    "much": """
        really = vraiment; rather = plutôt; truly = réellement; frankly = franchement
        simply = tout simplement; decidedly = décidément; often = souvent
        undeniably = indéniablement
        particularly = particulièrement; almost always = presque toujours
    """,
    "place": """
        in Paris = à Paris; in a small village = dans un petit village; in Brittany = en Bretagne
        on an island = sur une île; in London = à Londres; in Italy = en Italie
        in Lisbon = à Lisbonne; in a castle = dans un château; by the sea = au bord de la mer
        in Marseille = à Marseille; in the mountains = à la montagne; in Venice = à Venise
        in a boarding school = dans un pensionnat; in Russia = en Russie
        in the desert = dans le désert; in a hospital = dans un hôpital; in Scotland = en Écosse
        on a boat = sur un bateau; in Vienna = à Vienne; in Japan = au Japon
        in an old hotel = dans un vieil hôtel; in Normandy = en Normandie; in Canada = au Canada
        in a monastery = dans un monastère; in Prague = à Prague; in a suburb = dans une banlieue
        in Argentina = en Argentine; in an abandoned factory = dans une usine abandonnée
        in the forest = dans la forêt; in a theatre = dans un théâtre; in Naples = à Naples
        on a farm = dans une ferme; in Morocco = au Maroc; in a harbour = dans un port
        in Berlin = à Berlin; on a night train = dans un train de nuit; in Corsica = en Corse
        in an observatory = dans un observatoire; in Istanbul = à Istanbul; in India = en Inde
    """,
    "time": """
        during the war = pendant la guerre; in the nineteenth century = au dix-neuvième siècle
        in the Middle Ages = au Moyen Âge; after the war = après la guerre; today = de nos jours
        in the middle of winter = en plein hiver; in the sixties = dans les années soixante
        one summer = le temps d'un été; in the near future = dans un futur proche
        under Louis XIV = sous Louis XIV; in the seventies = dans les années soixante-dix
        during the Revolution = pendant la Révolution; in ancient times = dans l'Antiquité
        over three generations = sur trois générations; in a single night = en une seule nuit
        at the beginning of the century = au début du siècle; in autumn = en automne
        in the Renaissance = à la Renaissance; between the wars = entre les deux guerres
    """,
    "find": """
        an old letter = une vieille lettre; a hidden diary = un journal caché; a map = une carte
        a house by the sea = une maison au bord de la mer; a notebook = un carnet; a key = une clé
        a family secret = un secret de famille; a painting = un tableau; a manuscript = un manuscrit
        a violin = un violon; a photograph = une photographie; a suitcase = une valise
        an orchard = un verger; a silver watch = une montre en argent; a ring = une bague
        a strange inheritance = un étrange héritage; a chest = un coffre; a garden = un jardin
        a bookshop = une librairie; a red bicycle = un vélo rouge; a ship = un navire
        an unknown twin = un jumeau inconnu; a mirror = un miroir; a recipe = une recette
        a forbidden book = un livre interdit; a piano = un piano; a mask = un masque
        a telegram = un télégramme; an umbrella = un parapluie; a lamp = une lampe
        a vineyard = un vignoble; a necklace = un collier; a lighthouse = un phare
        a wooden horse = un cheval de bois; a parrot = un perroquet; a code = un code
        a music box = une boîte à musique; an amulet = une amulette; a will = un testament
    """,
    "deed": """
        discovers = découvre; finds = trouve; loses = perd; looks for = cherche; hides = cache
        inherits = hérite de; receives = reçoit; steals = vole; sells = vend; buys = achète
        dreams of = rêve de; gives away = donne; buries = enterre; forgets = oublie
        repairs = répare; protects = protège; draws = dessine; destroys = détruit
        borrows = emprunte
    """,
    "shop": """
        at the station = à la gare; online = en ligne; at a flea market = dans une brocante
        at the bookshop = en librairie; at the airport = à l'aéroport; second-hand = d'occasion
        at the supermarket = au supermarché; at a book fair = dans un salon du livre
        on holiday = en vacances; at the museum = au musée; in town = en ville
        on a bookstall = chez un bouquiniste; on a whim = sur un coup de tête
        during the sales = pendant les soldes
    """,
    "moment": """
        on the train = dans le train; in the evening = le soir; on the beach = à la plage
        last summer = l'été dernier; during the holidays = pendant les vacances; in bed = au lit
        over a weekend = en un week-end; in the underground = dans le métro; at lunchtime = à midi
        last winter = l'hiver dernier; on the plane = dans l'avion; at night = la nuit
        by the fire = au coin du feu; in the garden = dans le jardin
        on a rainy day = un jour de pluie; in the waiting room = dans la salle d'attente
        in hospital = à l'hôpital; after work = après le travail; at the café = au café
        on Sunday = dimanche; in the bath = dans le bain; on the bus = dans le bus
        in a hammock = dans un hamac
    """,
    "number": """
        three hundred = trois cents; two hundred = deux cents; four hundred = quatre cents
        five hundred = cinq cents; a hundred = cent; six hundred = six cents
        ninety = quatre-vingt-dix; a thousand = mille; fifty = cinquante; eighty = quatre-vingts
        seven hundred = sept cents
    """,
    "genre": """
        detective novels = romans policiers; historical novels = romans historiques; essays = essais
        thrillers = thrillers; comics = bandes dessinées; biographies = biographies; poems = poèmes
        fairy tales = contes; short stories = nouvelles; travel books = récits de voyage
        spy stories = histoires d'espionnage; family sagas = sagas familiales; mangas = mangas
        science fiction novels = romans de science-fiction; plays = pièces de théâtre
        adventure novels = romans d'aventures; cookery books = livres de cuisine
        philosophy books = livres de philosophie; ghost stories = histoires de fantômes
    """,
}

NAMES = {
    "first": """
        Anna; Paul; Claire; Martin; Irène; Louis; Nora; Victor; Alice; Simon; Emma; Oscar; Léa
        Adrien; Judith; Max; Inès; Bruno; Élise; Samuel; Iris; Félix; Agathe; Tom; Odile; Karim
    """,
    "last": """
        Morel; Keller; Varga; Lindon; Ashby; Delmas; Orsini; Brandt; Castel; Novak; Ferrand; Olsen
        Maréchal; Whitlock; Santini; Roche; Almeida; Berger; Quint; Lacombe; Tanner; Ivanov; Dumas
        Petrov; Garnier; Sorel; Winter; Albin; Mercier; Costa; Verne; Kessel; Robin; Nielsen; Thorel
    """,
}
