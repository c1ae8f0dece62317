import type { DemoSeller } from '../../localnet/demoSeller.ts'
import { callApi } from './callApi.ts'
import type { SampleSeller } from './sampleSeller.ts'
import { signUpSeller } from './signUpSeller.ts'

export interface OpenedStore {
  readonly apiKey: string
  readonly link: { readonly url: string; readonly price: string }
  readonly dearLink: { readonly url: string; readonly price: string }
  readonly freeLink: { readonly url: string }
  /** `?address=` of a wallet gets test money. */
  readonly faucetLink: { readonly url: string }
}

/** Opens a store the way every seller does: by the marketplace API, with a wallet's signature. */
export async function openStore(
  baseUrl: string,
  seller: DemoSeller,
  sample: SampleSeller,
): Promise<OpenedStore> {
  const apiKey = await signUpSeller(baseUrl, seller, { username: 'demo', displayName: 'Demo seller' })
  const bio = 'The weather of any city, as an example of an API that is paid per call.'
  await callApi(baseUrl, 'PATCH', '/api/v1/profile', { bio }, apiKey)
  const weather = {
    url: sample.url,
    title: 'Weather of a city',
    description: 'Temperature and sky, as they are now.',
    tags: ['weather', 'live'],
    isPublic: true,
    methods: ['GET'],
    inputSchema: {
      type: 'object',
      properties: { city: { type: 'string', description: 'Its name.', default: 'Lisbon' } },
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
    { ...weather, title: 'Weather, to try', slug: 'hello' },
    apiKey,
  )
  const faucet = await callApi(
    baseUrl,
    'POST',
    '/api/v1/links',
    {
      url: `${sample.url}/faucet`,
      title: 'Faucet',
      description: 'Test money of this machine.',
      slug: 'faucet',
    },
    apiKey,
  )
  return {
    apiKey,
    link: { url: link.fullUrl, price: link.price },
    dearLink: { url: dear.fullUrl, price: dear.price },
    freeLink: { url: free.fullUrl },
    faucetLink: { url: faucet.fullUrl },
  }
}
