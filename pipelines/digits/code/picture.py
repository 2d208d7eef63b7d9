"""Pictures without a plotting library: a canvas of RGB pixels, a 5 x 7 font, and a PNG writer on zlib."""
import struct
import zlib

import numpy as np

WHITE = (255, 255, 255)
BLACK = (24, 24, 27)
GREY = (212, 212, 216)
BLUE = (29, 78, 216)
ORANGE = (194, 65, 12)

# One glyph is five columns, left to right; bit 0 of a column is its top pixel.
_FONT = {
    "0": "3E5149453E", "1": "00427F4000", "2": "4261514946", "3": "2141454B31", "4": "1814127F10", "5": "2745454539",
    "6": "3C4A494930", "7": "0171090503", "8": "3649494936", "9": "064949291E", ":": "0036360000", ".": "0060600000",
    ",": "0050300000", "-": "0808080808", "/": "2010080402", "%": "2313086462", "(": "001C224100", ")": "0041221C00",
    "=": "1414141414", "_": "4040404040", " ": "0000000000", "A": "7E1111117E", "B": "7F49494936", "C": "3E41414122",
    "D": "7F4141221C", "E": "7F49494941", "F": "7F09090901", "G": "3E4149497A", "H": "7F0808087F", "I": "00417F4100",
    "J": "2040413F01", "K": "7F08142241", "L": "7F40404040", "M": "7F020C027F", "N": "7F0408107F", "O": "3E4141413E",
    "P": "7F09090906", "Q": "3E4151215E", "R": "7F09192946", "S": "4649494931", "T": "01017F0101", "U": "3F4040403F",
    "V": "1F2040201F", "W": "3F4038403F", "X": "6314081463", "Y": "0708700807", "Z": "6151494543", "a": "2054545478",
    "b": "7F48444438", "c": "3844444420", "d": "384444487F", "e": "3854545418", "f": "087E090102", "g": "0C5252523E",
    "h": "7F08040478", "i": "00447D4000", "j": "2040443D00", "k": "7F10284400", "l": "00417F4000", "m": "7C04180478",
    "n": "7C08040478", "o": "3844444438", "p": "7C14141408", "q": "081414187C", "r": "7C08040408", "s": "4854545420",
    "t": "043F444020", "u": "3C4040407C", "v": "1C2040201C", "w": "3C4030403C", "x": "4428102844", "y": "0C5050503C",
    "z": "4464544C44",
}
GLYPH_WIDTH, GLYPH_HEIGHT = 6, 7


def _glyph(character):
    columns = bytes.fromhex(_FONT.get(character, "7F4141417F"))
    return np.array([[column >> row & 1 for column in columns] for row in range(GLYPH_HEIGHT)], bool)


def text_width(text, scale=1):
    return len(text) * GLYPH_WIDTH * scale


class Canvas:
    """A white picture; coordinates are pixels from the upper left corner; what lies outside is cut off."""

    def __init__(self, width, height):
        self.pixels = np.full((height, width, 3), 255, np.uint8)

    def rectangle(self, x, y, width, height, colour):
        self.pixels[max(y, 0):max(y + height, 0), max(x, 0):max(x + width, 0)] = colour

    def line(self, x0, y0, x1, y1, colour, thickness=2):
        steps = int(max(abs(x1 - x0), abs(y1 - y0), 1))
        for i in range(steps + 1):
            x = round(x0 + (x1 - x0) * i / steps)
            y = round(y0 + (y1 - y0) * i / steps)
            self.rectangle(x, y, thickness, thickness, colour)

    def text(self, x, y, text, colour=BLACK, scale=1):
        for character in text:
            mask = np.kron(_glyph(character), np.ones((scale, scale), bool))
            area = self.pixels[y:y + mask.shape[0], x:x + mask.shape[1]]
            area[mask[:area.shape[0], :area.shape[1]]] = colour
            x += GLYPH_WIDTH * scale

    def image(self, x, y, grey):
        """Puts a uint8 (h, w) array of grey values."""
        self.pixels[y:y + grey.shape[0], x:x + grey.shape[1]] = grey[:, :, None]

    def save(self, path):
        height, width, _ = self.pixels.shape
        rows = np.zeros((height, 1 + width * 3), np.uint8)  # each row starts with filter type 0
        rows[:, 1:] = self.pixels.reshape(height, -1)
        header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        with open(path, "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\n")
            for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")):
                file.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
