import type { Test } from 'tap'
import t from 'tap'
import { builtInAssets } from '../../core/domain/asset.ts'
import type { PayerState, Payers } from '../../core/ports/chains/payers.ts'
import { type Fixture, startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'
import { solanaWallet } from '../../test/helpers/admin-api/wallets.ts'

/** What a browser sends with a form on a page that sends no referrer. */
const asBrowser = { headers: { accept: 'text/html', origin: 'null', 'sec-fetch-site': 'same-origin' } }

/** A store with a `standard` link. */
async function shop(t: Test, more: object = {}, options: Parameters<typeof startAdmin>[1] = {}) {
  const f = await startAdmin(t, options)
  const { key, username } = await f.store()
  const url = 'https://files.example/book.epub?secret=1'
  const product = { url, title: 'A book', price: '5', linkType: 'standard', isPublic: true, ...more }
  const { body } = await f.call('POST', '/api/v1/links', { key, body: product })
  const { id, slug, privateSlug } = body.data
  const page = `/${username}/${privateSlug ?? slug}`
  return { f, key, username, id, page, url }
}

const buy = (f: Fixture, page: string, ip?: string) =>
  f.call('POST', page, { ...asBrowser, ...(ip !== undefined && { ip }) })

t.test('a standard link is bought in a browser: a button, a session, its checkout', async (t) => {
  const { f, key, id, page, url } = await shop(t)
  const { status, text } = await f.call('GET', page, asBrowser)
  t.equal(status, 200)
  t.match(
    text,
    new RegExp(`<form action="${page}" method="post"><button[^>]*type="submit"[^>]*>Buy</button>`),
  )
  t.match(text, />once</)
  t.notMatch(text, /a call|Health|secret=1/)

  const bought = await buy(f, page)
  t.equal(bought.status, 303)
  const location = new URL(String(bought.headers['location']))
  t.match(location.pathname, /^\/pay\/checkout\//)
  const { payments } = (await f.call('GET', '/api/v1/payments', { key })).body.data
  t.match(payments, [{ status: 'open', item: { title: 'A book', amount: '5.00' }, link: { id, url: null } }])
  t.match(payments[0].cancelUrl, page)
  const checkout = await f.call('GET', location.pathname + location.search, asBrowser)
  t.equal(checkout.status, 200)
  t.match(checkout.text, 'A book')
  t.notMatch(checkout.text, url, 'what is sold is not shown before it is paid')
})

t.test('an unlisted or a secret product is bought by everyone who knows its address', async (t) => {
  for (const more of [{ isPublic: false }, { isStealth: true }]) {
    const { f, page } = await shop(t, more)
    const { status, text, headers } = await f.call('GET', page, asBrowser)
    t.equal(status, 200)
    t.match(text, '>Buy</button>')
    t.match(text, 'name="robots" content="noindex"')
    t.notMatch(text, 'card.png')
    t.ok(headers['content-security-policy'])
    t.equal((await buy(f, page)).status, 303)
  }
})

t.test('what is called, free or not there has no sale of its own', async (t) => {
  const { f, key, username } = await shop(t)
  const api = { url: await f.seller(), title: 'An API', price: '1', isPublic: true }
  const { slug } = (await f.call('POST', '/api/v1/links', { key, body: api })).body.data
  for (const path of [`/${username}/${slug}`, `/${username}/nothing`, '/nobody_here/nothing'])
    t.match(await buy(f, path), { status: 404, body: { error: { code: 'LINK_NOT_FOUND' } } }, path)
  const free = await shop(t, { price: '0' })
  t.match((await free.f.call('GET', free.page, asBrowser)).text, />Open</)
  t.match((await buy(free.f, free.page)).status, 400)
})

t.test('strangers fill no more than half of what a store can have open, and read why', async (t) => {
  const { f, key, page } = await shop(t, {}, { options: { maxOpenSessionsPerStore: 4 } })
  for (let i = 0; i < 2; i++) t.equal((await buy(f, page)).status, 303)
  const refused = await buy(f, page)
  t.equal(refused.status, 409)
  t.match(refused.text, "You can't buy this item right now")
  const own = { key, body: { amount: '1', title: 'Own' } }
  t.equal((await f.call('POST', '/api/v1/payments', own)).status, 201)
})

t.test('a handful of strangers cannot keep all others from buying', async (t) => {
  const { f, page } = await shop(t, {}, { options: { maxOpenSessionsPerStore: 400 } })
  const statuses: number[] = []
  for (let ip = 1; ip <= 9; ip++)
    for (let i = 0; i < 25; i++) statuses.push((await buy(f, page, `127.0.0.${10 + ip}`)).status)
  t.equal(statuses.filter((status) => status === 303).length, 9 * 10, 'each has a share')
  t.ok(statuses.every((status) => status === 303 || status === 429))
  t.equal((await buy(f, page, '127.0.0.99')).status, 303, 'and a buyer finds room')
  const other = await shop(t)
  t.equal((await buy(other.f, other.page, '127.0.0.11')).status, 303)
})

t.test('a page elsewhere buys nothing for its reader', async (t) => {
  const { f, page } = await shop(t)
  const headers = { origin: 'https://elsewhere.example', 'sec-fetch-site': 'cross-site' }
  t.match((await f.call('POST', page, { headers })).body.error, { code: 'FOREIGN_ORIGIN' })
})

const [usdc, evmUsdc] = ['solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1', 'eip155:84532'].map(
  (network) => builtInAssets.find((asset) => asset.network === network)!,
) as [(typeof builtInAssets)[number], (typeof builtInAssets)[number]]
const { address } = solanaWallet()
const asking = (network: string, asset: string, wallet: string) =>
  `/api/payer?network=${network}&asset=${asset}&address=${wallet}`

t.test('a payer gets what the chain says of its wallet', async (t) => {
  const requests: unknown[] = []
  let state: PayerState | undefined = { recentBlockhash: address, balanceAtomic: 2_500_000n }
  const payers: Payers = {
    async read(asset, wallet) {
      requests.push([asset.address, wallet])
      return state
    },
  }
  const { call } = await startAdmin(t, { payers, assets: builtInAssets })
  const path = asking(usdc.network, usdc.address, address)
  t.match(await call('GET', path), {
    status: 200,
    body: { data: { recentBlockhash: address, balanceAtomic: '2500000' } },
  })
  t.strictSame(requests, [[usdc.address, address]])
  state = undefined
  t.match(await call('GET', path), { status: 503, body: { error: { code: 'CHAIN_UNAVAILABLE' } } })
})

t.test('no node is asked for what nobody can pay with', async (t) => {
  const payers: Payers = { read: async () => t.fail('the chain was asked') as never }
  const { call } = await startAdmin(t, { payers, assets: builtInAssets })
  for (const [path, code] of [
    [asking(usdc.network, address, address), 'VALIDATION_ERROR'],
    [asking(evmUsdc.network, evmUsdc.address, address), 'VALIDATION_ERROR'],
    [asking(usdc.network, usdc.address, '0x0'), 'INVALID_ADDRESS'],
    ['/api/payer', 'VALIDATION_ERROR'],
  ] as const) {
    t.match(await call('GET', path), { status: 400, body: { error: { code } } }, path)
  }
})
