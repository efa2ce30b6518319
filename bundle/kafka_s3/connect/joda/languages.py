"""Which languages have texts, and where do newer tables differ from the ones that names were made with?

Java 17 is the measure, with which the Connect sinks run. What is pinned here keeps a directory's name when babel is upgraded.
"""

from __future__ import annotations

LANGUAGES = frozenset({
    "af", "agq", "ak", "am", "ar", "as", "asa", "ast", "az", "bas", "be", "bem", "bez", "bg", "bm", "bn", "bo", "br", "brx", "bs", "ca",
    "ccp", "ce", "ceb", "cgg", "chr", "ckb", "cs", "cy", "da", "dav", "de", "dje", "doi", "dsb", "dua", "dyo", "dz", "ebu", "ee", "el",
    "en", "eo", "es", "et", "eu", "ewo", "fa", "ff", "fi", "fil", "fo", "fr", "fur", "fy", "ga", "gd", "gl", "gsw", "gu", "guz", "gv",
    "ha", "haw", "he", "hi", "hr", "hsb", "hu", "hy", "ia", "id", "ig", "ii", "is", "it", "ja", "jgo", "jmc", "jv", "ka", "kab", "kam",
    "kde", "kea", "khq", "ki", "kk", "kkj", "kl", "kln", "km", "kn", "ko", "kok", "ks", "ksb", "ksf", "ksh", "ku", "kw", "ky", "lag",
    "lb", "lg", "lkt", "ln", "lo", "lrc", "lt", "lu", "luo", "luy", "lv", "mai", "mas", "mer", "mfe", "mg", "mgh", "mgo", "mi", "mk",
    "ml", "mn", "mni", "mr", "ms", "mt", "mua", "my", "mzn", "naq", "nb", "nd", "nds", "ne", "nl", "nmg", "nn", "nnh", "no", "nus",
    "nyn", "om", "or", "os", "pa", "pcm", "pl", "ps", "pt", "qu", "rm", "rn", "ro", "rof", "ru", "rw", "rwk", "sa", "sah", "saq", "sat",
    "sbp", "sd", "se", "seh", "ses", "sg", "shi", "si", "sk", "sl", "smn", "sn", "so", "sq", "sr", "su", "sv", "sw", "ta", "te", "teo",
    "tg", "th", "ti", "tk", "to", "tr", "tt", "twq", "tzm", "ug", "uk", "ur", "uz", "vai", "vi", "vun", "wae", "wo", "xh", "xog", "yav",
    "yi", "yo", "yue", "zgh", "zh", "zu",
})  # fmt: skip
RENAMED = {"iw": "he", "in": "id", "ji": "yi", "no": "nb", "tl": "fil", "mo": "ro"}
"""Codes that Java takes for others."""
SHORT_MONTHS = {
    "fi": ("tammik.", "helmik.", "maalisk.", "huhtik.", "toukok.", "kesäk.", "heinäk.", "elok.", "syysk.", "lokak.", "marrask.", "jouluk."),
    "nb": ("jan.", "feb.", "mar.", "apr.", "mai", "jun.", "jul.", "aug.", "sep.", "okt.", "nov.", "des."),
    "nl": ("jan.", "feb.", "mrt.", "apr.", "mei", "jun.", "jul.", "aug.", "sep.", "okt.", "nov.", "dec."),
}  # fmt: skip
"""Abbreviated months that later tables shortened or lengthened."""
SHORT_DAYS = {
    "da": ("man.", "tir.", "ons.", "tor.", "fre.", "lør.", "søn."),
}  # fmt: skip
"""Abbreviated days, the same."""
DAYS = {
    "fi": ("maanantaina", "tiistaina", "keskiviikkona", "torstaina", "perjantaina", "lauantaina", "sunnuntaina"),
}  # fmt: skip
"""Days in full, the same."""
