import fc from 'fast-check'
import t from 'tap'
import { readCorpus } from './helpers/corpora.ts'
import { startGateway } from './helpers/gateway.ts'
import { hasWholeResponse, talk } from './helpers/rawHttp.ts'
import { startSeller } from './helpers/sellers.ts'

const seller = await startSeller(t, 'hello')
const gateway = await startGateway(t)
const link = await gateway.addLink({ slug: 'free', url: `${seller.url}/base` })

/** Sends one target as its UTF-8 bytes and tells what the seller saw of it. */
async function ask(target: string) {
  const before = seller.requests.length
  const bytes = Buffer.from(`GET ${target} HTTP/1.1\r\nHost: g\r\n\r\n`, 'utf8')
  const { statuses, closed } = await talk(gateway.port, bytes, hasWholeResponse)
  return { status: statuses[0], closed, seen: seller.requests.slice(before).map((r) => r.target) }
}

/** Whether a reader by the URL standard, and one that decodes first, both keep the path as it is. */
function hasOneReading(target: string): boolean {
  const path = target.split('?', 1)[0]!
  const resolved = decodeURIComponent(new URL(`http://seller${target}`).pathname)
  const decoded = decodeURIComponent(path)
  const segments = decoded.split('/').map((s) => s.split(';', 1)[0])
  return (
    resolved === decoded && !segments.includes('..') && !segments.includes('.') && !/[\\\0\r\n]/.test(decoded)
  )
}

for (const name of ['patt-traversal.txt', 'patt-open-redirect.txt', 'patt-crlf.txt', 'blns.json']) {
  const lines = readCorpus(name)
  t.test(
    `${name}: as a path, each is refused or reaches the seller as it came`,
    { skip: !lines && 'the corpus is not here' },
    async (t) => {
      let forwarded = 0
      for (const line of lines!) {
        for (const rest of [line, `/${line}`, `/${encode(line)}`, `/x/${line}/y`]) {
          const { status, closed, seen } = await ask(`${link.path}${rest}`)
          if (seen.length === 0) {
            t.ok([400, 404].includes(status!), `refused with ${status}`, { rest })
            if (status === 400) t.ok(closed, 'refused and closed')
            continue
          }
          forwarded++
          const [target] = seen
          t.strictSame(seen, [`/base${rest}`], 'as it came')
          t.ok(hasOneReading(target!), 'one reading', { target })
        }
      }
      t.comment(`${forwarded} of ${lines!.length * 4} were forwarded`)
    },
  )

  t.test(
    `${name}: in place of an address, none reaches a seller`,
    { skip: !lines && 'the corpus is not here' },
    async (t) => {
      for (const line of lines!) {
        for (const target of [line, `/${line}`, `/api/link/${line}`, `/api/link/demo/${encode(line)}`]) {
          const { status, seen } = await ask(target)
          t.strictSame(seen, [], 'not forwarded', { target })
          t.ok(status === 400 || status === 404, `refused with ${status}`, { target })
        }
      }
    },
  )

  t.test(
    `${name}: as a query, each is refused or reaches the seller as it came`,
    { skip: !lines && 'the corpus is not here' },
    async (t) => {
      for (const line of lines!) {
        for (const query of [`?${line}`, `?q=${encode(line)}`]) {
          const { status, seen } = await ask(`${link.path}${query}`)
          if (seen.length === 0) t.equal(status, 400, 'refused', { query })
          else t.strictSame(seen, [`/base${query}`])
        }
      }
    },
  )
}

function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed())
}

const forms = [
  '/..',
  '/.',
  '/a/../b',
  '/a/./b',
  '/..;/b',
  '/..;x=y',
  '/.;',
  '/%2e%2e',
  '/%2E',
  '/a%2fb',
  '/a%5Cb',
  '/a\\b',
  '/%00',
  '/a%0d%0ab',
  '/%7f',
  '//a',
  '/a//b',
  '/%c0%af',
  '/%ff',
  '/%u002e',
  '/%',
  '/%4',
  '/%zz',
  '/a#b',
  '/\u00e9',
  '/a\tb',
]
t.test('what a reader could resolve to another path is refused', async (t) => {
  for (const form of forms) {
    t.match(await ask(`${link.path}${form}`), { status: 400, closed: true, seen: { length: 0 } }, form)
    t.match(
      await ask(`/other${form}`),
      { status: 400, closed: true, seen: { length: 0 } },
      `${form} outside a link`,
    )
  }
})

const plain = fc.constantFrom(...'abcXYZ019-_~!$&\'()*+,;=:@|^`{}[]"<>.')
const escaped = fc
  .string({ unit: 'grapheme', minLength: 1, maxLength: 2 })
  .filter((s) => !/[\p{Cc}./\\]/u.test(s))
  .map(encodeURIComponent)
const segment = fc
  .array(fc.oneof({ weight: 4, arbitrary: plain }, escaped), { minLength: 1, maxLength: 8 })
  .map((parts) => parts.join(''))
  .filter((s) => !/^\.\.?(;|$)/.test(s) && !/%(2e|2f|5c|0|1|7f)/i.test(s))
const subPath = fc.array(segment, { maxLength: 4 }).map((all) => all.map((s) => `/${s}`).join(''))
const query = fc
  .string({ unit: fc.constantFrom(...'abc019=&%?/\\.:;@!$\'()*+,-_~|^`{}[]"<>'), maxLength: 20 })
  .filter((q) => !q.includes('x402Version'))

t.test('the path and the query that reach the seller are those that were sent', async () => {
  await fc.assert(
    fc.asyncProperty(subPath, fc.boolean(), fc.option(query), async (path, endsInSlash, q) => {
      const rest = `${path}${endsInSlash ? '/' : ''}${q === null ? '' : `?${q}`}`
      const { status, seen } = await ask(`${link.path}${rest}`)
      return status === 200 && seen.length === 1 && seen[0] === `/base${rest}`
    }),
    { numRuns: 500 },
  )
})

t.test("a link's own query comes first, the caller's after it", async (t) => {
  const keyed = await gateway.addLink({ slug: 'keyed', url: `${seller.url}/?key=1` })
  t.strictSame((await ask(`${keyed.path}?q=2`)).seen, ['/?key=1&q=2'])
  t.strictSame((await ask(`${keyed.path}/x?q=2`)).seen, ['/x?key=1&q=2'])
  t.strictSame((await ask(`${keyed.path}?`)).seen, ['/?key=1'])
  t.strictSame((await ask(keyed.path)).seen, ['/?key=1'])
})

t.test("the gateway's own x402Version is taken out of the query and nothing else is", async (t) => {
  t.strictSame((await ask(`${link.path}?x402Version=1`)).seen, ['/base'])
  t.strictSame((await ask(`${link.path}?a=1&x402Version=1&b=%20`)).seen, ['/base?a=1&b=%20'])
  t.strictSame((await ask(`${link.path}?ax402Version=1&X402VERSION=1`)).seen, [
    '/base?ax402Version=1&X402VERSION=1',
  ])
})

t.test('an old slug and an old username lead to the new ones, with sub-path and query', async (t) => {
  const { id, url } = await gateway.addLink({ slug: 'old', url: seller.url })
  t.equal((await fetch(url)).status, 200)
  await gateway.store.links.update(id, { slug: 'new' }, Date.now())
  const moved = await fetch(`${url}/a%20b?q=1&x402Version=1`, {
    redirect: 'manual',
    method: 'POST',
    body: 'x',
  })
  t.equal(moved.status, 308)
  t.equal(moved.headers.get('location'), '/api/link/demo/new/a%20b?q=1&x402Version=1')
  t.equal(moved.headers.get('cache-control'), 'no-store', 'the address may be taken by another link any time')
  const followed = await fetch(url, { method: 'POST', body: 'x' })
  t.equal(followed.status, 200)
  t.match(seller.requests.at(-1), { method: 'POST', target: '/' })

  await gateway.store.stores.update(gateway.storeId, { username: 'renamed' }, Date.now())
  const renamed = await fetch(`${gateway.url}/api/link/demo/new?q=1`, { redirect: 'manual' })
  t.equal(renamed.status, 308)
  t.equal(renamed.headers.get('location'), '/api/link/renamed/new?q=1')
  t.equal((await fetch(`${gateway.url}/api/link/demo/never`, { redirect: 'manual' })).status, 404)
})

t.test('a stealth link answers at its private slug only, and no other address tells of it', async (t) => {
  const privateSlug = 'f'.repeat(32)
  const given = { slug: 'hidden', privateSlug, isStealth: true, url: seller.url }
  await gateway.addLink(given)
  t.equal((await fetch(`${gateway.url}/api/link/renamed/${privateSlug}`)).status, 200)
  const response = await fetch(`${gateway.url}/api/link/renamed/hidden`, { redirect: 'manual' })
  const unknown = await fetch(`${gateway.url}/api/link/renamed/unknown`, { redirect: 'manual' })
  t.strictSame([response.status, unknown.status], [404, 404])
  const text = (body: string) => body.replace(/"requestId":"[^"]*"/, '')
  t.equal(text(await response.text()), text(await unknown.text()))
})
