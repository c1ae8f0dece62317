import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { initWasm, Resvg } from '@resvg/resvg-wasm'
import t from 'tap'
import type { Card } from './card.ts'
import { readCardFont } from './cardFont.ts'
import { createCardPainter } from './cardRoutes.ts'
import { drawCard } from './drawCard.ts'

const plain: Card = {
  ...{ serviceName: 'Tollgate', heading: 'Weather', plainHeading: 'northwind/weather', about: 'Of a city.' },
  ...{
    seller: { name: 'Northwind', plainName: '@northwind' },
    price: '0.01',
    bound: null,
    foot: ['Base', 'Solana'],
  },
}

const naughty = [
  '',
  ' ',
  '<script>alert(1)</script>]]>&amp;</text></svg><!--',
  'W'.repeat(200),
  'W '.repeat(100),
  `${'A word '.repeat(8)}${'i'.repeat(150)}`,
  'متجر البيانات العربية '.repeat(9),
  'שלום!',
  '\u202eevil\u202c\u0000\u0007\u200b\ud800',
  '😀👩‍👩‍👧‍👦🏴‍☠️'.repeat(20),
  '東京の天気',
  `Z${'\u0300\u0301'.repeat(90)}`,
  'ﷺ'.repeat(60),
]

t.test('whatever texts say, a card is drawn and nothing stands outside of its margins', async (t) => {
  await initWasm(readFileSync(createRequire(import.meta.url).resolve('@resvg/resvg-wasm/index_bg.wasm')))
  const font = readCardFont()
  const options = { font: { fontBuffers: [...font.files], defaultFontFamily: font.family } }
  /** Columns of pixels left and right of the text, and how many differ from the ground they stand on. */
  const strayPixelsOf = (svg: string) => {
    const { pixels, width, height } = new Resvg(svg, options).render()
    let strayPixels = 0
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        if (x >= 76 && x < width - 76) continue
        for (let i = 0; i < 3; i++)
          if (pixels[(y * width + x) * 4 + i] !== pixels[y * width * 4 + i]) strayPixels++
      }
    }
    return strayPixels
  }
  for (const text of naughty) {
    const name = { name: text, plainName: '@northwind' }
    const svg = drawCard({ ...plain, heading: text, about: text, seller: name, foot: [text] }, font)
    t.equal(strayPixelsOf(svg), 0, JSON.stringify(text.slice(0, 30)))
    t.notMatch(svg, '<script')
    t.notMatch(svg, /<text[^>]*font-size="(76|60)"[^>]*><\/text>/, 'it says something')
  }
  const expensive = {
    ...plain,
    price: `${'9'.repeat(18)}.${'9'.repeat(6)}`,
    foot: ['Base Sepolia', 'Solana Devnet'],
  }
  t.equal(strayPixelsOf(drawCard(expensive, font)), 0)
  t.match(drawCard(expensive, font), '999999 USDC a call', 'a price is never cut')
})

t.test('no more bytes of pictures are kept than is said', async (t) => {
  const painter = createCardPainter({ cachedBytes: 60_000 })
  t.teardown(() => painter.close())
  const first = await painter.paint(plain)
  t.equal(await painter.paint(plain), first, 'kept')
  for (const heading of ['A', 'B', 'C']) await painter.paint({ ...plain, heading })
  t.not(await painter.paint(plain), first, 'not for ever')
})

t.test('what stops the thread fails one card; the next one gets a new thread', async (t) => {
  const painter = createCardPainter()
  t.teardown(() => painter.close())
  const broken = painter.paint({ ...plain, foot: null as never })
  const next = painter.paint(plain)
  await t.rejects(broken)
  t.ok(await next)
})
