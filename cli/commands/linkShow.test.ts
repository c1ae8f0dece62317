import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { createPipeline } from '../program.ts'

const link = {
  id: '7',
  slug: 'images',
  title: 'Images',
  url: 'https://api.example.com',
  fullUrl: 'https://pay.example/api/link/demo/images',
  privateUrl: null,
  priceMin: '0.02',
  priceMax: '0.05',
  methods: [],
  isPublic: true,
  isStealth: false,
  suspension: null,
}
const table = {
  rules: [
    { when: { method: 'POST', path: '/render/*', query: { size: ['large', 'huge'] } }, price: '0.05' },
    { when: { body: { '/model': 'big' } }, price: '0.03' },
  ],
  otherwise: null,
}

/** Runs the command against a gateway with this link, on a terminal of 80 columns. @returns what was printed */
async function show(t: Test, price: unknown, ...flags: string[]): Promise<string> {
  const server = createServer((request, response) => {
    const one = { ...link, price }
    const isList = request.url!.startsWith('/api/v1/links?')
    response.end(JSON.stringify({ data: isList ? { links: [one], nextCursor: null } : one }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const gateway = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { stdout } = process
  const before = { write: stdout.write, isTTY: stdout.isTTY, columns: stdout.columns }
  const printed: string[] = []
  Object.assign(stdout, { write: (text: string) => printed.push(text) > 0, isTTY: true, columns: 80 })
  process.env['TOLLGATE_API_KEY'] = 'tg_live_x'
  process.env['NO_COLOR'] = '1'
  try {
    await createPipeline().parseAsync(['link', 'show', 'images', '--gateway', gateway, ...flags], {
      from: 'user',
    })
  } finally {
    Object.assign(stdout, before)
  }
  return printed.join('')
}

t.test('a link is shown with its prices by request as a table', async (t) => {
  const text = await show(t, table)
  t.match(text, 'Address: https://pay.example/api/link/demo/images')
  const rows = text.slice(text.indexOf('Rule')).split('\n')
  t.match(rows[0], /^Rule {2}Request +USDC$/)
  t.match(rows[1], /^ {3}1 {2}POST, path \/render\/\*, query size = large or huge +0\.05$/)
  t.match(rows[2], /^ {3}2 {2}body \/model = big +0\.03$/)
  t.match(rows[3], /^ {6}every other request +refused$/)
})

t.test('a price server and one price are shown, and a program gets the link', async (t) => {
  const server = { url: 'https://api.example.com/price', max: '0.5', fallback: '0.4', headers: [] }
  t.match(await show(t, server), /Price server: https:\/\/api.example.com\/price\nHighest price: 0.5 USDC/)
  t.notMatch(await show(t, '0.01'), 'Rule')
  t.strictSame(JSON.parse(await show(t, table, '--json')), { ...link, price: table })
})
