"""The words that praise and blame, each with its French counterpart.

Entries read `english = french` and stand from frequent to rare. Adjectives give the masculine, or
all forms that break the rules; `^` marks those that stand before the noun. Verbs give the base (and
an irregular past) and the French participle; nouns end in their gender. Knows nothing about
sentences.
"""

POSITIVE = {
    "adj": """
        gripping = captivant; excellent = ^excellent; moving = émouvant; funny = drôle
        brilliant = brillant; original = original; superb = superbe; wonderful = merveilleux
        touching = touchant; fascinating = fascinant; exciting = passionnant; perfect = parfait
        delightful = délicieux; subtle = subtil; magnificent = magnifique; poetic = poétique
        remarkable = remarquable; powerful = puissant; charming = charmant; thrilling = palpitant
        clever = astucieux; elegant = élégant; intelligent = intelligent; lively = vivant
        refreshing = rafraîchissant; memorable = mémorable; splendid = splendide; deep = profond
        stunning = époustouflant; tender = tendre; hilarious = hilarant; masterful = magistral
        luminous = lumineux; unforgettable = inoubliable; overwhelming = bouleversant
        amazing = étonnant; dazzling = éblouissant; spellbinding = envoûtant; witty = spirituel
        sensitive = sensible; rich = riche; surprising = surprenant; inventive = inventif
        polished = soigné; sparkling = pétillant; enthralling = ensorcelant; delicate = délicat
        exquisite = exquis; sublime = sublime; striking = saisissant; fluid = fluide
        vibrant = vibrant; precise = précis; harmonious = harmonieux; irresistible = irrésistible
        sumptuous = somptueux; generous = généreux; bold = audacieux; compelling = prenant
        extraordinary = extraordinaire; heart-warming = réconfortant; uplifting = exaltant
        enriching = enrichissant; instructive = instructif; entertaining = divertissant
        pleasant = agréable; enjoyable = plaisant; fantastic = fantastique; ingenious = ingénieux
        incredible = incroyable; accomplished = abouti; successful = réussi; balanced = équilibré
        impeccable = impeccable; outstanding = exceptionnel; genuine = authentique
        sincere = sincère; warm = chaleureux; nuanced = nuancé; juicy = savoureux
        lovely = ravissant; colourful = coloré; haunting = obsédant; hypnotic = hypnotique
        addictive = addictif; timeless = intemporel; exhilarating = jubilatoire; pretty = ^joli
        invigorating = vivifiant
    """,
    "trait": """
        endearing = attachant; likeable = sympathique; believable = crédible; complex = complexe
        human = humain; convincing = convaincant; realistic = réaliste; lovable = adorable
        admirable = admirable; natural = naturel; charismatic = charismatique; brave = courageux
        disarming = désarmant; magnetic = magnétique; mischievous = malicieux; radiant = rayonnant
        noble = noble; quick-witted = vif; cheerful = enjoué; dignified = digne
    """,
    "finish": """
        solid = solide; attractive = attrayant; sturdy = robuste; tidy = propre
        faultless = irréprochable; silky = soyeux; hard-wearing = résistant; refined = raffiné
        gilded = doré
    """,
    "effect": """
        touch = touché; move = ému; captivate = captivé; delight = ravi; charm = charmé
        overwhelm = bouleversé; fascinate = fasciné; impress = impressionné; amuse = amusé
        enchant = enchanté; seduce = séduit; convince = convaincu; dazzle = ébloui; thrill = emballé
        comfort = réconforté; amaze = émerveillé; transport = transporté; grip/gripped = happé
        inspire = inspiré; conquer = conquis; bewitch = ensorcelé; astonish = épaté
        intrigue = intrigué; stun/stunned = époustouflé; cheer = égayé; absorb = absorbé
        enlighten = éclairé; hypnotise = hypnotisé; exhilarate = exalté
    """,
    "act": """
        love = adoré; enjoy = apprécié; like = aimé; devour = dévoré; admire = admiré
        savour = savouré; relish = dégusté; applaud = applaudi; cherish = chéri; praise = vanté
        celebrate = célébré; welcome = salué; acclaim = acclamé
    """,
    "gem": """
        masterpiece = chef-d'œuvre m; delight = délice m; gem = pépite f; success = réussite f
        marvel = merveille f; treat = régal m; treasure = trésor m; pleasure = plaisir m
        triumph = triomphe m; revelation = révélation f; joy = joie f; jewel = bijou m
        wonder = prodige m; favourite = coup de cœur m; feat = prouesse f; miracle = miracle m
        pearl = perle f; feast = festin m; enchantment = enchantement m
        tour de force = tour de force m; ray of sunshine = rayon de soleil m
        breath of fresh air = bouffée d'air frais f; caress = caresse f
        model of its kind = modèle du genre m; firework = feu d'artifice m
        moment of grace = moment de grâce m; landmark = jalon m
    """,
    "quality": """
        charm = charme; humour = humour; emotion = émotion; imagination = imagination
        tenderness = tendresse; depth = profondeur; finesse = finesse; wit = esprit
        suspense = suspense; poetry = poésie; grace = grâce; intelligence = intelligence
        warmth = chaleur; energy = énergie; wisdom = sagesse; originality = originalité
        elegance = élégance; freshness = fraîcheur; talent = talent; humanity = humanité
        sincerity = sincérité; subtlety = subtilité; sensitivity = sensibilité; audacity = audace
        passion = passion; generosity = générosité; verve = verve; clarity = clarté; magic = magie
        virtuosity = virtuosité; modesty = pudeur
    """,
    "manner": """
        well = bien; beautifully = joliment; brilliantly = brillamment; superbly = superbement
        finely = finement; wonderfully = merveilleusement; elegantly = élégamment
        skilfully = habilement; admirably = admirablement; perfectly = parfaitement
        delicately = délicatement; cleverly = astucieusement; carefully = soigneusement
        gracefully = gracieusement; remarkably = remarquablement; tenderly = tendrement
        deftly = adroitement; divinely = divinement; masterfully = magistralement
        intelligently = intelligemment
    """,
}

NEGATIVE = {
    "adj": """
        boring = ennuyeux; bad = ^mauvais; disappointing = décevant; predictable = prévisible
        dull = terne; slow = lent; flat = plat; confusing = confus; mediocre = médiocre
        annoying = agaçant; heavy = lourd; ridiculous = ridicule; empty = vide; awful = affreux
        clumsy = maladroit; pretentious = prétentieux; tedious = fastidieux; weak = faible
        repetitive = répétitif; bland = fade; superficial = superficiel; silly = niais
        endless = interminable; banal = banal/banale/banals; absurd = absurde; poor = pauvre
        laboured = laborieux; soporific = soporifique; sloppy = négligé; painful = pénible
        disjointed = décousu; irritating = irritant; implausible = invraisemblable
        depressing = déprimant; dreadful = épouvantable; hollow = creux; vulgar = vulgaire
        indigestible = indigeste; insipid = insipide; unbearable = insupportable; forced = forcé
        childish = puéril; grotesque = grotesque; artificial = artificiel; conventional = convenu
        hackneyed = rebattu; stale = éculé; tiresome = lassant; mind-numbing = abrutissant
        exhausting = épuisant; unreadable = illisible; incoherent = incohérent; cold = froid
        muddled = embrouillé; shaky = bancal/bancale/bancals; lifeless = inerte; stiff = raide
        pompous = pompeux; wordy = verbeux; mawkish = mièvre; syrupy = sirupeux; corny = ringard
        simplistic = simpliste; crude = grossier; unpleasant = désagréable; failed = raté
        botched = bâclé; useless = inutile; frustrating = frustrant; hopeless = nul/nulle
        monotonous = monotone; lazy = paresseux; dreary = morne; pathetic = pitoyable
        lamentable = lamentable; deplorable = déplorable; appalling = consternant
        off-putting = rebutant; obscure = obscur; convoluted = alambiqué; caricatural = caricatural
        formulaic = stéréotypé; overrated = surfait; dated = daté; sterile = stérile
        chaotic = chaotique; ugly = laid; catastrophic = catastrophique; stodgy = pâteux
        contrived = tarabiscoté
    """,
    "trait": """
        unlikeable = antipathique; naive = naïf/naïve; stereotyped = caricaturé; hateful = odieux
        insignificant = insignifiant; transparent = transparent; wooden = figé; selfish = égoïste
        interchangeable = interchangeable; grating = horripilant; whiny = geignard
        cynical = cynique; detestable = détestable; foolish = sot/sotte; smug = suffisant
        spineless = amorphe; ludicrous = risible; shallow = inconsistant; colourless = effacé
        unpalatable = imbuvable
    """,
    "finish": """
        damaged = abîmé; torn = déchiré; flimsy = fragile; dirty = sale; faded = délavé
        stained = taché; crumpled = froissé; scratched = rayé; shabby = miteux
    """,
    "effect": """
        bore = ennuyé; disappoint = déçu; annoy = agacé; irritate = irrité; tire = fatigué
        frustrate = frustré; confuse = embrouillé; exhaust = épuisé; depress = déprimé
        discourage = découragé; exasperate = exaspéré; shock = choqué; disgust = dégoûté
        weary/wearied = lassé; repel/repelled = rebuté; infuriate = énervé; upset/upset = contrarié
        embarrass = gêné; chill = refroidi; appal/appalled = consterné; distress = affligé
        horrify = horrifié; dishearten = démoralisé; numb = abruti; outrage = scandalisé
        smother = étouffé; dismay = atterré
    """,
    "act": """
        hate = détesté; endure = enduré; criticise = critiqué; dread = redouté; despise = méprisé
        loathe = exécré; curse = maudit; condemn = condamné; denigrate = dénigré
        abhor/abhorred = abhorré; mock = raillé; suffer = subi
    """,
    "gem": """
        disappointment = déception f; waste of time = perte de temps f; disaster = désastre m
        failure = échec m; chore = corvée f; catastrophe = catastrophe f; nightmare = cauchemar m
        mess = fouillis m; waste = gâchis m; scam = arnaque f; fiasco = fiasco m
        ordeal = supplice m; mistake = erreur f; shipwreck = naufrage m; insult = insulte f
        caricature = caricature f; sleeping pill = somnifère m; torture = torture f
        horror = horreur f; jumble = fatras m; cold shower = douche froide f; fraud = escroquerie f
        heap of clichés = ramassis de clichés m; torment = calvaire m; punishment = punition f
        sham = imposture f; dud = navet m
    """,
    "quality": """
        clichés = clichés; boredom = ennui; mistakes = fautes; padding = remplissage
        repetitions = répétitions; platitudes = platitudes; inconsistencies = incohérences
        confusion = confusion; pretension = prétention; nonsense = sottises; coldness = froideur
        vulgarity = vulgarité; stereotypes = stéréotypes; contradictions = contradictions
        laziness = paresse; heaviness = lourdeur; digressions = digressions; arrogance = arrogance
        pathos = pathos; clumsiness = maladresse; implausibilities = invraisemblances
        sentimentality = sensiblerie; chatter = bavardages; misprints = coquilles; jargon = jargon
        triteness = banalité; monotony = monotonie; emptiness = vacuité; haste = précipitation
        posturing = esbroufe; affectation = affectation
    """,
    "manner": """
        badly = mal; poorly = pauvrement; clumsily = maladroitement; horribly = horriblement
        lazily = paresseusement; hastily = hâtivement; crudely = grossièrement
        awkwardly = gauchement; carelessly = négligemment; tediously = fastidieusement
        heavily = lourdement; laboriously = laborieusement; painfully = péniblement
        pitifully = pitoyablement; ridiculously = ridiculement; dreadfully = affreusement
        confusedly = confusément; abominably = abominablement; stupidly = stupidement
        lamentably = lamentablement
    """,
}
