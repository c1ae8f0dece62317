import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { parentPort } from 'node:worker_threads'
import { initWasm, Resvg } from '@resvg/resvg-wasm'
import type { Card } from './card.ts'
import { readCardFont } from './cardFont.ts'
import { drawCard } from './drawCard.ts'

const font = readCardFont()
await initWasm(readFileSync(createRequire(import.meta.url).resolve('@resvg/resvg-wasm/index_bg.wasm')))
const options = { font: { fontBuffers: [...font.files], defaultFontFamily: font.family } }

parentPort!.on('message', (card: Card) => {
  const drawing = new Resvg(drawCard(card, font), options)
  const image = drawing.render()
  const png = image.asPng()
  image.free()
  drawing.free()
  parentPort!.postMessage(png)
})
