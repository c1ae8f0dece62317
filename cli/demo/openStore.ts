import type { DemoSeller } from '../../localnet/demoWallets.ts'
import type { SampleSeller } from './sampleSeller.ts'
import { callApi, signUpSeller } from './storeApi.ts'

export interface OpenedStore {
  readonly apiKey: string
  readonly link: { readonly url: string; readonly price: string }
  readonly expensiveLink: { readonly url: string; readonly price: string }
  readonly freeLink: { readonly url: string }
  /** A link whose API sends test money to the wallet in `?address=`. */
  readonly faucetLink: { readonly url: string }
}

/** Opens a store as every seller does. It sends a wallet's signature to the marketplace API. */
export async function openStore(
  baseUrl: string,
  seller: DemoSeller,
  sample: SampleSeller,
): Promise<OpenedStore> {
  const apiKey = await signUpSeller(baseUrl, seller, { username: 'demo', displayName: 'Demo seller' })
  const bio = 'The weather in any city: an example of an API that is paid per call.'
  await callApi(baseUrl, 'PATCH', '/api/v1/profile', { bio }, apiKey)
  const weather = {
    url: sample.url,
    title: 'Weather of a city',
    description: 'Current temperature and sky.',
    tags: ['weather', 'live'],
    isPublic: true,
    methods: ['GET'],
    inputSchema: {
      type: 'object',
      properties: { city: { type: 'string', description: 'Name of the city.', default: 'Lisbon' } },
    },
    outputExample: { city: 'Lisbon', temperatureC: 21, sky: 'clear', asOf: '2026-06-01T12:00:00.000Z' },
  }
  const link = await callApi(
    baseUrl,
    'POST',
    '/api/v1/links',
    { ...weather, slug: 'weather', price: '0.01' },
    apiKey,
  )
  const dear = await callApi(
    baseUrl,
    'POST',
    '/api/v1/links',
    { ...weather, title: 'Forecast for ten days', slug: 'forecast', price: '0.25' },
    apiKey,
  )
  const free = await callApi(
    baseUrl,
    'POST',
    '/api/v1/links',
    { ...weather, title: 'Weather, free sample', slug: 'hello' },
    apiKey,
  )
  const faucet = await callApi(
    baseUrl,
    'POST',
    '/api/v1/links',
    {
      url: `${sample.url}/faucet`,
      title: 'Faucet',
      description: 'Test money on this machine.',
      slug: 'faucet',
    },
    apiKey,
  )
  return {
    apiKey,
    link: { url: link.fullUrl, price: link.price },
    expensiveLink: { url: dear.fullUrl, price: dear.price },
    freeLink: { url: free.fullUrl },
    faucetLink: { url: faucet.fullUrl },
  }
}
