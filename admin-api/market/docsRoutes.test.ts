import { globSync } from 'node:fs'
import { basename, dirname, join } from 'node:path/posix'
import t from 'tap'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

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
  'GET /api/purchases/{id}/response',
  'GET /api/reviews',
  'GET /api/store/{username}',
  'GET /api/store/{username}/{slug}/health',
  'GET /api/v1/channels',
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
  'GET /api/v1/purchases/{id}/receipt',
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
    t.match(text, '/openapi.json')
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

t.test('each document of the package is a page, and the navigation has it', async (t) => {
  const f = await startAdmin(t)
  const documents = globSync('**/*.md', { cwd: new URL('../../docs/', import.meta.url) })
  t.ok(documents.length > 20)
  for (const document of documents) {
    const page = document.replace(/README\.md$/, 'index.md').replace(/md$/, 'html')
    const { status, text, headers } = await f.call('GET', `/docs/${page}`)
    t.equal(status, 200, page)
    t.match(headers, { 'content-type': /^text\/html/, 'cache-control': /public/ })
    t.equal(text.match(/<h1/g)?.length, 1, page)
    if (page === 'index.html') continue
    const section = await f.call('GET', join('/docs', dirname(page), '/'))
    t.match(section.text, `href="${basename(page)}"`, `${page} is in its section's navigation`)
  }
})

t.test(
  'a page of the documentation has the name of the service and nothing that its policy forbids',
  async (t) => {
    const f = await startAdmin(t)
    const { text, headers } = await f.call('GET', '/docs/tutorials/sell-your-api.html')
    t.match(text, /<a class="brand" href="\/">.*Tollgate/)
    t.match(text, 'href="/dashboard"')
    t.match(headers['content-security-policy'], /^default-src 'none'; script-src 'self'; style-src 'self';/)
    t.notMatch(text, /<script(?![^>]*\bsrc=)|<style| style=| on[a-z]+=/)
    const assets = [...text.matchAll(/<(?:script|link)[^>]* (?:src|href)="([^"]+)"/g)].map(
      ([, path]) => path!,
    )
    t.ok(assets.length > 2)
    for (const asset of assets) {
      const { pathname, origin } = new URL(asset, 'http://docs.example/docs/tutorials/')
      t.equal(origin, 'http://docs.example')
      t.equal((await f.call('GET', pathname)).status, 200, pathname)
    }
  },
)

t.test('a folder leads to its first page; a page that the reader has is not sent again', async (t) => {
  const f = await startAdmin(t)
  for (const folder of ['/docs', '/docs/tutorials'])
    t.match(await f.call('GET', folder), { status: 308, headers: { location: `${folder}/` } })
  const { etag } = (await f.call('GET', '/docs/')).headers
  const again = await f.call('GET', '/docs/', { headers: { 'if-none-match': String(etag) } })
  t.equal(again.status, 304)
  for (const path of [
    '/docs/none.html',
    '/docs//',
    '/docs/..%2fmanifest.json',
    '/docs/pictures/..%2f..%2fmanifest.json',
    '/docs/pictures/none.png',
  ])
    t.equal((await f.call('GET', path)).status, 404, path)
})
