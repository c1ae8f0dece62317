import { execFileSync } from 'node:child_process'
import fc from 'fast-check'
import t from 'tap'
import { type CalledLink, callSamples } from './callSamples.ts'

const link: CalledLink = {
  url: 'https://pay.example/api/link/ann/weather',
  method: 'GET',
  networks: ['eip155:8453'],
  publicUrl: 'https://pay.example',
  username: 'ann',
  slug: 'weather',
  example: { city: 'Lisbon' },
}
const codeOf = (title: string, more: Partial<CalledLink> = {}) =>
  callSamples({ ...link, ...more }).find((one) => one.title === title)?.code ?? ''

t.test('a paid link is called in four ways, a free one without a payment', async (t) => {
  t.strictSame(
    callSamples(link).map(({ title }) => title),
    ['curl', '@x402/fetch', 'tollgate pay', 'MCP'],
  )
  t.strictSame(
    callSamples({ ...link, networks: [] }).map(({ title }) => title),
    ['curl', 'fetch', 'MCP'],
  )
  t.match(codeOf('@x402/fetch', { networks: ['solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp'] }), '@x402/svm')
  t.strictSame(JSON.parse(codeOf('MCP').split('\n').slice(1).join('\n')), {
    link: 'ann/weather',
    query: { city: 'Lisbon' },
  })
})

t.test(
  'whatever a seller gives as an example reaches a shell as one argument, and runs nothing',
  async () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 40 }), (text) => {
        if (text.includes('\0')) return true
        const line = codeOf('curl', { method: 'POST', example: { text } }).replace(
          /^curl -i/,
          'printf "%s\\0"',
        )
        const output = execFileSync('/bin/sh', ['-c', line], { encoding: 'utf8' }).split('\0')
        return output.at(-3) === JSON.stringify({ text }) && output.at(-2) === link.url
      }),
      { numRuns: 60, examples: [["'; touch /tmp/x; '"], ['$(id)`id`'], ['\n']] },
    )
  },
)

t.test('a program is a program, whatever the example says', async (t) => {
  for (const text of ['"', '`${1}`', '\u2028', "'", '\\']) {
    for (const method of ['GET', 'POST']) {
      const code = codeOf('fetch', { networks: [], method, example: { text } })
      t.doesNotThrow(() => new Function(`return async () => { ${code} }`))
    }
  }
})
