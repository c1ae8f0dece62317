import { readFileSync } from 'node:fs'
import t from 'tap'

const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8')

/** Names and values of a stylesheet's custom colours, light and dark. */
function coloursOf(css: string): Record<'light' | 'dark', Map<string, string>> {
  const blocks = [...css.matchAll(/:root \{([^}]*)\}/g)].map(
    ([, body = '']) =>
      new Map(
        [...body.matchAll(/--([\w-]+): (#\w+|rgb\([^)]*\));/g)].map(([, name = '', value = '']) => [
          name,
          value,
        ]),
      ),
  )
  return { light: blocks[0]!, dark: blocks[1]! }
}

const tokens = coloursOf(read('./tokens.css'))

/** Relative luminance (WCAG 2.2). */
function luminanceOf(colour: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5]
    .map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

function contrastOf(one: string, other: string): number {
  const [dark = 0, light = 0] = [luminanceOf(one), luminanceOf(other)].sort((a, b) => a - b)
  return (light + 0.05) / (dark + 0.05)
}

t.test('every text can be read on what it stands on, in light and in dark', async (t) => {
  const pairs = [
    ...['bg', 'surface', 'sunken'].flatMap((below) =>
      ['text', 'muted', 'accent'].map((text) => [text, below]),
    ),
    ...['bad', 'warn', 'good', 'info'].flatMap((tone) => [
      [tone, `${tone}-soft`],
      [tone, 'surface'],
    ]),
    ...[
      ['on-accent', 'accent'],
      ['on-accent', 'accent-strong'],
      ['accent-strong', 'accent-soft'],
      ['on-warn', 'warn'],
    ],
  ]
  for (const scheme of ['light', 'dark'] as const) {
    for (const [text = '', below = ''] of pairs) {
      const contrast = contrastOf(tokens[scheme].get(text)!, tokens[scheme].get(below)!)
      t.ok(contrast >= 4.5, `${scheme}: ${text} on ${below} has ${contrast.toFixed(2)}`)
    }
  }
})
