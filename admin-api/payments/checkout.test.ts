import { brotliCompressSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { readCorpus } from '../../test/helpers/corpora.ts'
import { readAsset, webManifest } from '../../web/render/assets.ts'

/** A store with a session, and its checkout. */
async function shop(t: Test, body: object = {}) {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const made = await f.call('POST', '/api/v1/payments', {
    key,
    body: { amount: '49.99', title: 'Tea', ...body },
  })
  const { id, checkoutUrl, clientSecret } = made.body.data
  const path = `/pay/checkout/${id}`
  return {
    f,
    key,
    id,
    clientSecret,
    path,
    checkoutUrl,
    open: (query = `?cs=${clientSecret}`) => f.call('GET', path + query),
  }
}

t.test('the page says what is paid, to whom and how, without a script', async (t) => {
  const { open, f, checkoutUrl, path, clientSecret } = await shop(t, { description: 'Loose leaves' })
  t.equal(checkoutUrl, `https://pay.example${path}?cs=${clientSecret}`)
  const { status, text } = await open()
  t.equal(status, 200)
  for (const words of [
    'Tea',
    'Loose leaves',
    '49.99',
    'Base Sepolia',
    'tollgate pay -X POST --max 49.99',
    '<noscript>Paying',
    'Paid in USDC from your own wallet',
  ])
    t.match(text, words)
  t.notMatch(text, /<script(?![^>]*(nonce=|type="application\/json"))/, 'no script without the nonce')
  t.equal(f.logged.length, 0)
})

t.test('nothing of it stays anywhere, frames it, or takes its address along', async (t) => {
  const { open } = await shop(t)
  for (const query of [undefined, '', '?cs=pscs_wrong']) {
    const { headers } = await open(query)
    t.match(headers, {
      'cache-control': 'private, no-store',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'unsafe-none',
      'content-security-policy':
        /default-src 'none'; script-src 'nonce-[\w-]+'; style-src 'self'; .*frame-ancestors 'none'/,
    })
  }
})

t.test(
  'without its secret, and with a wrong one, nobody learns what is paid, or that there is anything',
  async (t) => {
    const { open, f, id } = await shop(t)
    const bare = await open('')
    t.equal(bare.status, 200, 'a page that is loaded again finds its secret in the tab')
    t.notMatch(bare.text, /\bTea\b|49\.99|Paid in USDC/)
    const other = await f.call('GET', '/pay/checkout/00000000-0000-4000-8000-000000000000')
    t.equal(other.text.replace(/nonce="[^"]+"/g, ''), bare.text.replace(/nonce="[^"]+"/g, ''))
    for (const path of [
      `/pay/checkout/${id}?cs=pscs_x`,
      '/pay/checkout/nothing?cs=pscs_x',
      `/pay/checkout/${id}?cs=`,
    ]) {
      const { status, text } = await f.call('GET', path)
      t.equal(status, 404, path)
      t.match(text, 'This payment does not exist')
      t.notMatch(text, /\bTea\b|49\.99|Paid in USDC/)
    }
  },
)

t.test('how a session has ended is said by the server', async (t) => {
  const { open, f, id, clientSecret } = await shop(t, { cancelUrl: 'https://shop.test/cart' })
  await f.call('POST', `/api/v1/payments/${id}/cancel?cs=${clientSecret}`)
  const { text } = await open()
  t.match(text, 'This payment was canceled')
  t.notMatch(text, 'Paid in USDC', 'nothing was paid')
  t.match(text, 'href="https://shop.test/cart"')
  const late = await shop(t)
  late.f.clock.nowMs += 31 * 60_000
  t.match((await late.open()).text, 'This checkout has expired')
})

t.test('whatever a seller calls a thing is text', async (t) => {
  const naughty = readCorpus('blns.json') ?? [
    '</script><script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
  ]
  const titles = naughty.filter((title) => /[<>"'&`]/.test(title)).slice(0, 120)
  t.ok(titles.length > 1)
  const { f, key } = await shop(t)
  let shown = 0
  for (const title of titles) {
    const made = await f.call('POST', '/api/v1/payments', {
      ...{ key, body: { amount: '1', title, clientReferenceId: title.slice(0, 200) } },
    })
    if (made.status !== 201) continue
    shown++
    const { text } = await f.call(
      'GET',
      new URL(made.body.data.checkoutUrl).pathname + new URL(made.body.data.checkoutUrl).search,
    )
    const tags = text.match(/<(script|img|iframe|svg|object|embed|a)\b[^>]*>/gi) ?? []
    const foreign = tags.filter(
      (tag) =>
        /onerror|onload|javascript:|alert/i.test(tag) || (/^<script/i.test(tag) && !tag.includes('nonce=')),
    )
    t.strictSame(foreign, [], title)
  }
  t.ok(shown > titles.length / 2, `${shown} of ${titles.length} were taken`)
})

t.test('what the page loads before a wallet is chosen is at most 60 kB', async (t) => {
  const { open } = await shop(t)
  const { text } = await open()
  const names = [...text.matchAll(/\/assets\/([\w.-]+)"/g)].map(([, name]) => name!)
  t.ok(names.some((name) => name.endsWith('.js')) && names.some((name) => name.endsWith('.css')))
  const bytes = [...new Set(names)].map((name) => readAsset(name)!.gzip.length)
  const total = bytes.reduce((sum, one) => sum + one, brotliCompressSync(text).length)
  t.ok(total <= 60_000, `${total} bytes`)
  const loaded = [...new Set(names)].map((name) => readAsset(name)!.plain.toString()).join('')
  t.notMatch(loaded, 'eth_signTypedData_v4', 'the code that signs comes later')
  const all = webManifest()
    .files.map((name) => readAsset(name)!.plain.toString())
    .join('')
  t.match(all, 'eth_signTypedData_v4')
})

t.test('the widget is small, for every page, and kept only until it changes', async (t) => {
  const { f } = await shop(t)
  const { headers, text } = await f.call('GET', '/widget.js', { headers: { origin: 'https://shop.test' } })
  t.ok(Buffer.byteLength(text) <= 6_000, `${Buffer.byteLength(text)} bytes`)
  t.match(headers, {
    'content-type': 'text/javascript; charset=utf-8',
    'access-control-allow-origin': '*',
    'cross-origin-resource-policy': 'cross-origin',
    'cache-control': 'public, max-age=300',
    etag: /^"[\w-]+"$/,
  })
  const again = await f.call('GET', '/widget.js', { headers: { 'if-none-match': String(headers['etag']) } })
  t.equal(again.status, 304)
  t.equal((await f.call('GET', '/widget.js', { headers: { 'if-none-match': '"x"' } })).status, 200)
  t.notMatch(text, /\?\?=|#\w+ ?[=;(]/, 'nothing newer than ES2020')
})
