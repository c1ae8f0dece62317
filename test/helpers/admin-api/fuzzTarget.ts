import type { Test } from 'tap'
import { startAdmin } from './startAdmin.ts'

const linkId = '00000000-0000-4000-8000-000000000000'

/** Every route that reads a body, with the fields of one that is right. */
export const bodies = [
  { method: 'POST', path: '/api/agent/auth/nonce', fields: ['address', 'chain'] },
  {
    method: 'POST',
    path: '/api/agent/signup',
    fields: [
      'address',
      'chain',
      'signature',
      'message',
      'username',
      'displayName',
      'avatarUrl',
      'replaceOldestKey',
    ],
  },
  { method: 'POST', path: '/api/agent/keys', fields: ['name'] },
  {
    method: 'PATCH',
    path: '/api/v1/profile',
    fields: [
      'username',
      'displayName',
      'bio',
      'avatarUrl',
      'developerModeEnabled',
      'payout',
      'payoutProof',
      'usernameProof',
    ],
  },
  { method: 'POST', path: '/api/v1/profile/payout/nonce', fields: ['payout'] },
  { method: 'POST', path: '/api/v1/profile/username/nonce', fields: ['username'] },
  { method: 'POST', path: `/api/v1/purchases/${linkId}/refunds`, fields: ['txHash'] },
  { method: 'POST', path: '/api/reviews', fields: ['purchaseId', 'wallet', 'token', 'positive', 'comment'] },
  {
    method: 'POST',
    path: '/api/v1/links',
    fields: [
      ...[
        'url',
        'title',
        'description',
        'slug',
        'price',
        'isPublic',
        'isStealth',
        'webhookUrl',
        'method',
        'methods',
      ],
      ...['inputSchema', 'outputExample', 'tags', 'iconUrl', 'responseMode', 'settle', 'upstreamHeaders'],
    ],
  },
] as const

/** Every route with something in its path or its query. */
export const paths = (piece: string) => [
  ['GET', `/api/store/${piece}`],
  ['GET', `/${piece}`],
  ...[
    'q',
    'type',
    'minPrice',
    'maxPrice',
    'sort',
    'limit',
    'offset',
    'network',
    'tag',
    'seller',
    'free',
    'minRating',
  ].map((name) => ['GET', `/api/discover?${name}=${piece}`]),
  ['GET', `/discovery/search?query=${piece}`],
  ['GET', `/discovery/resources?type=${piece}`],
  ['GET', `/${piece}/openapi.json`],
  ['GET', `/api/reviews?username=${piece}`],
  ['GET', `/api/reviews?username=abc&slug=${piece}`],
  ['DELETE', `/api/agent/keys/${piece}`],
  ['GET', `/api/v1/links/${piece}`],
  ['PATCH', `/api/v1/links/${piece}`],
  ['DELETE', `/api/v1/links/${piece}`],
  ['POST', `/api/v1/links/${piece}/re-enable`],
  ['POST', `/api/v1/links/${piece}/test`],
  ['GET', `/api/v1/links/${piece}/health`],
  ['GET', `/api/v1/links/${linkId}/health?limit=${piece}`],
  ['GET', `/api/v1/purchases/${piece}`],
  ['POST', `/api/v1/purchases/${piece}/refunds`],
  ['GET', `/api/v1/purchases?cursor=${piece}`],
  ['GET', `/api/v1/purchases?limit=${piece}`],
  ['GET', `/api/v1/purchases?linkId=${piece}`],
  ['GET', `/api/v1/stats?period=${piece}`],
  ['GET', `/api/v1/stats?linkId=${piece}`],
]

/** An admin API, a store with a link, and a check that every answer is orderly. */
export async function target(t: Test) {
  // Sellers' addresses are looked up for real; no fuzzed link may wait for that.
  const f = await startAdmin(t, { options: { probeTimeoutMs: 50, maxActiveKeys: 100_000 } })
  const { key, wallet } = await f.store()
  const url = await f.seller()
  const { id } = (await f.call('POST', '/api/v1/links', { key, body: { url, title: 'Fuzzed' } })).body.data
  /** Fields of a request that would pass, so that each wrong one is reached. */
  const right: Record<string, unknown> = {
    address: wallet.address,
    chain: 'base',
    message: 'Nonce: abcdefgh12345678',
    signature: '0x00',
    txHash: `0x${'ab'.repeat(32)}`,
    payout: { base: '0x00000000000000000000000000000000000000b1' },
    payoutProof: { message: 'Nonce: abcdefgh12345678', signature: '0x00' },
    usernameProof: { message: 'Nonce: abcdefgh12345678', signature: '0x00' },
    url,
    title: 'Right',
    ...{ purchaseId: linkId, wallet: wallet.address, token: 'x', positive: true, comment: 'Right' },
  }
  const check = async (method: string, path: string, body?: unknown) => {
    const response = await f.call(method, path, { key, ...(body !== undefined && { body }) })
    const isOrderly =
      response.status < 500 &&
      (response.status < 400 ||
        (response.body?.success === false && typeof response.body.error.code === 'string'))
    if (isOrderly) return true
    t.fail(`${method} ${path.slice(0, 100)} answered ${response.status}`, {
      body,
      response: response.text.slice(0, 500),
    })
    return false
  }
  return { f, key, id, right, check }
}

/** The entries of these names only. */
export function pick(from: Record<string, unknown>, fields: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(from).filter(([name]) => fields.includes(name)))
}
