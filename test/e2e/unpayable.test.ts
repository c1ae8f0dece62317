import { base58 } from '@scure/base'
import t from 'tap'
import { createStore } from '../../cli/runtime/createStore.ts'
import { newSolanaSecret } from '../../localnet/demoWallets.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { startChains } from './helpers/chains.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

const chains = await startChains(t)
const product = await startProduct(t, {}, chains)
const { solana } = chains
const [evmChain, solanaChain] = chains.both
interface Answer {
  readonly data: { readonly fullUrl: string; readonly warnings?: readonly string[] }
  readonly payout: { readonly warnings?: readonly string[] }
}

const newAddress = () => base58.encode(newSolanaSecret().subarray(32))

async function openStore(username: string, wallets: { base?: string; solana: string }) {
  const { apiKey } = await createStore(product.config.file, chains.env, { username, ...wallets })
  const call = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${product.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${apiKey}`, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
    return (await response.json()) as Answer
  }
  const addLink = async (slug: string, price = '0.01') =>
    (await call('POST', '/api/v1/links', { url: `${product.api.url}/${slug}`, slug, title: slug, price }))
      .data
  return { call, addLink }
}

const networksOf = async (url: string) => {
  const response = await fetch(url)
  const header = JSON.parse(atob(response.headers.get('payment-required') ?? btoa('{"accepts":[]}')))
  const body = (await response.json()) as { accepts: object[] }
  if (response.status === 402) t.same(body.accepts, header.accepts, 'header and body say the same')
  return header.accepts.map((entry: { network: string }) => entry.network).sort()
}

t.test(
  'a Solana wallet without an account of the token is left out, and told everywhere; with one it is back',
  async (t) => {
    const wallet = newAddress()
    const store = await openStore('half_open', { base: product.wallets.base, solana: wallet })
    const link = await store.addLink('half')
    t.match(link.warnings, [new RegExp(`${wallet} has no account`)])
    t.same((await store.addLink('gratis', '0')).warnings, undefined, 'a free link needs no account')
    t.match((await store.call('GET', '/api/v1/profile')).payout, {
      solana: wallet,
      warnings: [new RegExp(solana.ataAddress(wallet))],
    })
    t.match(
      (await product.doctor()).filter(({ subject }) => subject === 'store half_open'),
      [{ ok: true, isWarning: true, message: /no account that can receive USDC/ }],
    )
    t.same(await networksOf(link.fullUrl), [evmChain.network], 'from the first call on')

    const buyer = await newBuyer(chains, solanaChain)
    const known = await product.addLink('known')
    const offer = await buyer.sign(known, undefined, { payTo: wallet })
    const refused = await present(link.fullUrl, offer)
    t.match(refused, {
      status: 402,
      body: { error: { code: 'invalid_payment', message: /seller.*no account.*Create its/ } },
    })

    solana.createAta(wallet)
    // Reading the profile triggers a new check, and so does the clock, only later.
    t.same((await store.call('GET', '/api/v1/profile')).payout, {
      base: product.wallets.base,
      solana: wallet,
      changedAt: null,
    })
    t.same(await networksOf(link.fullUrl), [evmChain.network, solanaChain.network].sort())
    t.equal((await buyer.fetchV2(link.fullUrl)).status, 200)
    t.equal(solana.balanceUsdc(wallet), 10_000n)
  },
)

t.test('a link that nobody can pay answers 503 with the reason, never an empty offer', async (t) => {
  const wallet = newAddress()
  const store = await openStore('closed', { solana: wallet })
  const { fullUrl } = await store.addLink('closed')
  for (const url of [fullUrl, `${fullUrl}?x402Version=1`]) {
    const response = await fetch(url)
    t.equal(response.status, 503)
    t.match(await response.json(), {
      error: { code: 'settlement_unavailable', message: new RegExp(`${wallet} has no account`) },
    })
    t.equal(response.headers.get('retry-after'), '60')
  }
  solana.createAta(wallet)
  await store.call('GET', '/api/v1/profile')
  t.same(await networksOf(fullUrl), [solanaChain.network])
})

t.test('when no node can say, it is offered', async (t) => {
  const wallet = newAddress()
  const store = await openStore('unknown', { solana: wallet })
  solanaChain.rpc.add('getMultipleAccounts', { kind: 'refuse' })
  const link = await store.addLink('unknown')
  t.equal(link.warnings, undefined)
  t.same(await networksOf(link.fullUrl), [solanaChain.network])
  solanaChain.rpc.clear()
  await eventually(async () => (await store.call('GET', '/api/v1/profile')).payout.warnings)
  t.same(await networksOf(link.fullUrl), [])
})

t.test('calls ask no node for the seller’s account once it was seen', async (t) => {
  const url = await product.addLink('seen')
  await networksOf(url)
  solanaChain.rpc.resetCounters()
  for (let i = 0; i < 20; i++) await networksOf(url)
  t.equal(solanaChain.rpc.calls(), 0)
})
