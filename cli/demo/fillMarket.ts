import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { initWasm, Resvg } from '@resvg/resvg-wasm'
import { createDemoSeller, type DemoBuyer } from '../../localnet/demoWallets.ts'
import { demoAvatar, type SampleLink, type SampleStore, sampleStores } from './sampleStores.ts'
import { sellForAMonth } from './sellForAMonth.ts'
import type { Demo } from './startDemo.ts'
import { callApi, signUpSeller } from './storeApi.ts'

/** Sample sales and reviews of the demo's own store. */
const ownLinks: Readonly<
  Record<'weather' | 'forecast' | 'hello', Pick<SampleLink, 'price' | 'dailyCalls' | 'reviews'>>
> = {
  weather: {
    price: '0.01',
    dailyCalls: 16,
    reviews: [
      { isPositive: true, comment: 'Right so far, also for villages.' },
      { isPositive: true, comment: 'An agent of mine asks it every hour.' },
      { isPositive: false, comment: 'Was down for a while last week.' },
    ],
  },
  forecast: {
    price: '0.25',
    dailyCalls: 4,
    reviews: [{ isPositive: true, comment: 'Expensive, and worth it.' }],
  },
  hello: { price: '0', dailyCalls: 40, reviews: [] },
}

/**
 * Fills the demo's marketplace with a month of data: stores, links, sales, reviews, a payment session, a
 * webhook.
 */
export async function fillMarket(demo: Demo): Promise<{ readonly checkoutUrl: string }> {
  const { apiKey, tollgate, sample, seller } = demo
  const { gatewayUrl, stack } = tollgate
  await initWasm(readFileSync(createRequire(import.meta.url).resolve('@resvg/resvg-wasm/index_bg.wasm')))
  for (const store of sampleStores) await openSample(demo, store)
  await dress(gatewayUrl, apiKey, {
    avatar: demoAvatar,
    socials: [{ type: 'website', url: 'https://weather.example/' }],
  })
  for (const [slug, link] of Object.entries(ownLinks)) {
    await giveMonth(demo, { username: 'demo', slug, link, payTo: seller.evmAddress })
  }
  await reviewOnce(demo, demo.buyers[0]!, 'demo', 'weather', 'Paid, answered, done in a second.')
  await reviewOnce(demo, demo.buyers[1]!, 'northwind', 'rates', 'Paid from Solana. Works.')
  await stack.store.discovery.recount(Date.now())
  await callApi(gatewayUrl, 'PATCH', '/api/v1/profile', { developerModeEnabled: true }, apiKey)
  const hook = { url: `${sample.url}/hooks`, description: 'Shop server' }
  const { id } = await callApi(gatewayUrl, 'POST', '/api/v1/webhooks', hook, apiKey)
  await callApi(gatewayUrl, 'POST', `/api/v1/webhooks/${id}/test`, {}, apiKey)
  const order = {
    amount: '4.90',
    title: 'Weather station, one month',
    description: 'Readings of one station, every minute.',
    clientReferenceId: 'order-1001',
  }
  const { checkoutUrl } = await callApi(gatewayUrl, 'POST', '/api/v1/payments', order, apiKey)
  return { checkoutUrl }
}

async function openSample(demo: Demo, store: SampleStore): Promise<void> {
  const { tollgate, sample, solana } = demo
  const { gatewayUrl } = tollgate
  const { username, displayName } = store
  const seller = createDemoSeller(solana)
  const apiKey = await signUpSeller(gatewayUrl, seller, { username, displayName })
  await callApi(gatewayUrl, 'PATCH', '/api/v1/profile', { bio: store.bio }, apiKey)
  await dress(gatewayUrl, apiKey, store)
  for (const link of store.links) {
    const { slug, title, description, price, tags, method, properties, required, answer } = link
    const body = {
      url: `${sample.url}/${username}/${slug}`,
      slug,
      title,
      description,
      price,
      tags,
      isPublic: true,
      methods: [method],
      inputSchema: { type: 'object', required, properties },
      outputExample: answer,
    }
    await callApi(gatewayUrl, 'POST', '/api/v1/links', body, apiKey)
    await giveMonth(demo, { username, slug, link, payTo: seller.evmAddress })
  }
}

/** Image and social links of a store. */
async function dress(
  gatewayUrl: string,
  apiKey: string,
  { avatar, socials }: Pick<SampleStore, 'avatar' | 'socials'>,
): Promise<void> {
  const form = new FormData()
  const png = new Resvg(avatar, { fitTo: { mode: 'width', value: 256 } }).render().asPng()
  form.set('file', new Blob([new Uint8Array(png)], { type: 'image/png' }), 'avatar.png')
  const headers = { authorization: `Bearer ${apiKey}` }
  const response = await fetch(`${gatewayUrl}/api/v1/avatar`, { method: 'POST', headers, body: form })
  if (!response.ok) throw new Error(`Uploading a store's image failed with ${response.status}.`)
  await callApi(gatewayUrl, 'POST', '/api/v1/socials', { socials }, apiKey)
}

interface OwnMonth {
  readonly username: string
  readonly slug: string
  readonly payTo: string
  readonly link: Pick<SampleLink, 'price' | 'dailyCalls' | 'reviews'>
}

async function giveMonth({ tollgate, evm }: Demo, { username, slug, link, payTo }: OwnMonth): Promise<void> {
  const { stack } = tollgate
  const { id, storeId } = (await stack.store.links.served(username, slug))!
  const network = evm.network as `eip155:${number}`
  const hasRefundDue = slug === 'weather'
  await sellForAMonth(stack, { storeId, linkId: id, link, network, payTo, nowMs: Date.now(), hasRefundDue })
}

/** Pays for a call on its chain, which allows one review, and posts the review. */
async function reviewOnce(
  { tollgate }: Demo,
  buyer: DemoBuyer,
  username: string,
  slug: string,
  comment: string,
): Promise<void> {
  const answer = await buyer.fetch(`${tollgate.gatewayUrl}/api/link/${username}/${slug}`)
  const { _svc } = (await answer.json()) as { _svc: { purchaseId: string; reviewToken: string } }
  const { purchaseId, reviewToken: token } = _svc
  const review = { purchaseId, wallet: buyer.address, token, positive: true, comment }
  await callApi(tollgate.gatewayUrl, 'POST', '/api/reviews', review)
}
