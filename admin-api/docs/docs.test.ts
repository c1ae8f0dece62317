import { readdirSync } from 'node:fs'
import t from 'tap'
import { startAdmin } from '../testing/startAdmin.ts'
import { guideGroups } from './guides.ts'

type Tree = { readonly [key: string]: unknown }

interface Operation {
  readonly security: readonly object[]
  readonly operationId: string
  readonly responses: object
}

const documentedRoutes = [
  'DELETE /api/agent/keys/{id}',
  'DELETE /api/dashboard/session',
  'DELETE /api/dashboard/sessions/{id}',
  'DELETE /api/operator/session',
  'DELETE /api/v1/links/{id}',
  'DELETE /api/v1/webhooks/{id}',
  'GET /api/agent/keys',
  'GET /api/dashboard/attention',
  'GET /api/dashboard/purchases/{id}/steps',
  'GET /api/dashboard/session',
  'GET /api/dashboard/sessions',
  'GET /api/discover',
  'GET /api/operator/config',
  'GET /api/operator/live',
  'GET /api/operator/program',
  'GET /api/operator/session',
  'GET /api/operator/settling',
  'GET /api/operator/status',
  'GET /api/operator/stores',
  'GET /api/operator/suspensions',
  'GET /api/payer',
  'GET /api/reviews',
  'GET /api/store/{username}',
  'GET /api/store/{username}/{slug}/health',
  'GET /api/v1/fees',
  'GET /api/v1/fees/invoices',
  'GET /api/v1/links',
  'GET /api/v1/links/{id}',
  'GET /api/v1/links/{id}/health',
  'GET /api/v1/payments',
  'GET /api/v1/payments/{id}',
  'GET /api/v1/payments/{id}/events',
  'GET /api/v1/profile',
  'GET /api/v1/purchases',
  'GET /api/v1/purchases/{id}',
  'GET /api/v1/stats',
  'GET /api/v1/stats/timeseries',
  'GET /api/v1/webhooks',
  'GET /api/v1/webhooks/{id}',
  'GET /api/v1/webhooks/{id}/deliveries',
  'GET /api/v1/webhooks/{id}/deliveries/{deliveryId}',
  'GET /api/v1/withdrawals',
  'GET /discovery/resources',
  'GET /discovery/search',
  'GET /healthz',
  'GET /metrics',
  'GET /readyz',
  'PATCH /api/v1/links/{id}',
  'PATCH /api/v1/profile',
  'PATCH /api/v1/webhooks/{id}',
  'POST /api/agent/auth/nonce',
  'POST /api/agent/keys',
  'POST /api/agent/signup',
  'POST /api/dashboard/nonce',
  'POST /api/dashboard/session',
  'POST /api/operator/session',
  'POST /api/operator/suspensions/{id}/lift',
  'POST /api/reviews',
  'POST /api/v1/avatar',
  'POST /api/v1/fees/invoices',
  'POST /api/v1/links',
  'POST /api/v1/links/import',
  'POST /api/v1/links/{id}/re-enable',
  'POST /api/v1/links/{id}/test',
  'POST /api/v1/payments',
  'POST /api/v1/payments/{id}/cancel',
  'POST /api/v1/payments/{id}/confirm',
  'POST /api/v1/payments/{id}/pay',
  'POST /api/v1/profile/payout/nonce',
  'POST /api/v1/profile/username/nonce',
  'POST /api/v1/purchases/{id}/refunds',
  'POST /api/v1/socials',
  'POST /api/v1/webhooks',
  'POST /api/v1/webhooks/{id}/deliveries/{deliveryId}/replay',
  'POST /api/v1/webhooks/{id}/rotate-secret',
  'POST /api/v1/webhooks/{id}/test',
  'POST /api/v1/withdrawals',
]

t.test('the OpenAPI document is 3.1, names every route, and says which need a key', async (t) => {
  const f = await startAdmin(t)
  const { status, body, headers } = await f.call('GET', '/openapi.json')
  t.equal(status, 200)
  t.match(headers['cache-control'], /public/)
  t.equal(body.openapi, '3.1.0')
  t.same(body.servers, [{ url: 'https://pay.example' }])
  const routes: string[] = []
  const ids = new Set<string>()
  for (const [path, methods] of Object.entries<Record<string, Record<string, unknown>>>(body.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      routes.push(`${method.toUpperCase()} ${path}`)
      t.ok(operation['summary'], `${method} ${path} has a summary`)
      const isSigningIn = /^(post|delete) .*\/(nonce|session)$/.test(`${method} ${path}`)
      const needsBrowser = /^\/api\/(dashboard|operator)\//.test(path) && !isSigningIn
      const needsKey = path.startsWith('/api/v1/') || path.startsWith('/api/agent/keys') || needsBrowser
      const { security, operationId, responses } = operation as unknown as Operation
      t.equal(security.length > 0, needsKey, `${method} ${path} names its key, and [] where it needs none`)
      t.ok(
        Object.keys(responses).some((status) => status.startsWith('2')),
        `${method} ${path} has a good answer`,
      )
      t.match(operationId, /^[a-z]+([A-Z][a-zA-Z0-9]*)+$/)
      ids.add(operationId)
    }
  }
  t.equal(ids.size, routes.length, 'each has a name of its own')
  t.same(routes.sort(), documentedRoutes)
  t.ok(body.components.schemas.Error)
})

t.test('every reference in the document leads somewhere', async (t) => {
  const f = await startAdmin(t)
  const { body } = await f.call('GET', '/openapi.json')
  const references = JSON.stringify(body).match(/"\$ref":"[^"]+"/g) ?? []
  t.ok(references.length > 20)
  for (const reference of new Set(references)) {
    const path = /"#\/([^"]+)"/.exec(reference)?.[1]?.split('/')
    t.ok(
      path?.reduce<Tree | undefined>((value, part) => value?.[part] as Tree, body),
      reference,
    )
  }
})

t.test(
  'the reference page needs no other host and no inline script, and is read without a script',
  async (t) => {
    const f = await startAdmin(t)
    const { status, text, headers } = await f.call('GET', '/docs/api')
    t.equal(status, 200)
    t.match(headers['content-type'], /text\/html/)
    t.match(headers['content-security-policy'], /default-src 'none'; script-src 'self';/)
    t.match(text, 'id="swagger-ui"')
    t.match(text, '/api/v1/links')
    t.notMatch(text, /(?:src|rel="stylesheet" href)="(?:https?:)?\/\//)
    t.notMatch(text, /<script(?![^>]*\bsrc=)/)
    const assets = [...text.matchAll(/(?:src|rel="stylesheet" href)="([^"]+)"/g)].map(
      ([, asset = '']) => asset,
    )
    t.ok(assets.length > 2)
    for (const path of [...assets, '/docs/api/ui/static/swagger-ui-bundle.js', '/docs/api/ui/json'])
      t.equal((await f.call('GET', path)).status, 200, path)
  },
)

t.test('the page of Swagger UI itself leads to the reference in the pages of the service', async (t) => {
  const f = await startAdmin(t)
  for (const path of ['/docs/api/ui', '/docs/api/ui/', '/docs/api/ui/static/index.html']) {
    const { status, headers } = await f.call('GET', path)
    t.match({ status, location: headers['location'] }, { status: 302, location: '/docs/api' }, path)
  }
})

const guideNames = guideGroups.flatMap(({ guides }) => guides.map(({ name }) => name))

t.test('every guide of the package stands in the list, once', async (t) => {
  const files = readdirSync(new URL('../../docs/', import.meta.url)).filter((file) => file.endsWith('.md'))
  t.strictSame(guideNames.map((name) => `${name}.md`).sort(), files.sort())
  const { text } = await (await startAdmin(t)).call('GET', '/docs')
  for (const name of guideNames) t.match(text, `href="/docs/${name}"`)
})

t.test('every link, anchor and picture of a guide leads to what is there', async (t) => {
  const f = await startAdmin(t)
  const texts = new Map<string, string>()
  for (const name of guideNames) {
    const { status, text, headers } = await f.call('GET', `/docs/${name}`)
    t.equal(status, 200, name)
    t.match(headers['cache-control'], /public/)
    t.notMatch(text, /<!-- |<a href="(?!https?:|\/|#)/)
    t.equal(text.match(/<h1/g)?.length, 1, name)
    texts.set(name, text)
  }
  const ids = new Map([...texts].map(([name, text]) => [name, text.matchAll(/ id="([^"]+)"/g)]))
  const anchors = new Map([...ids].map(([name, found]) => [name, new Set([...found].map(([, id]) => id))]))
  let followed = 0
  for (const [name, text] of texts) {
    for (const [, guide, anchor] of text.matchAll(/href="(?:\/docs\/([a-z-]+))?#([^"]+)"/g)) {
      followed++
      t.ok(anchors.get(guide ?? name)?.has(decodeURI(anchor!)), `${name} → ${guide ?? ''}#${anchor}`)
    }
    for (const [, picture] of text.matchAll(/<img src="([^"]+)"/g))
      t.match((await f.call('GET', picture!)).headers['content-type'], 'image/png', picture!)
  }
  t.ok(followed > 40)
})

t.test('a guide that is known is not sent again; what is no guide is not found', async (t) => {
  const f = await startAdmin(t)
  const { etag } = (await f.call('GET', '/docs/sellers')).headers
  const again = await f.call('GET', '/docs/sellers', { headers: { 'if-none-match': String(etag) } })
  t.equal(again.status, 304)
  for (const path of [
    '/docs/README',
    '/docs/..%2fREADME',
    '/docs/decisions',
    '/docs/pictures/..%2fapi.md',
    '/docs/pictures/none.png',
  ])
    t.equal((await f.call('GET', path)).status, 404, path)
})
