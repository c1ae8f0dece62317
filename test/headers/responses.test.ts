import t from 'tap'
import { startGateway } from '../helpers/gateway.ts'
import { hasWholeResponse, talk } from '../helpers/rawHttp.ts'
import { rawSeller } from '../helpers/sellerOf.ts'
import { startSeller } from '../helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from '../helpers/settler.ts'

const seller = await startSeller(t, 'hello')

const gateway = await startGateway(t, { settlers: [createScriptedSettler()] })

const free = await gateway.addLink({ slug: 'free', url: seller.url })

const paid = await gateway.addLink({ slug: 'paid', url: seller.url, price: '0.10' })

const forbidden = [
  ...[
    'Set-Cookie: a=1',
    'Set-Cookie: b=2',
    'Set-Cookie2: c=3',
    'Strict-Transport-Security: max-age=1',
    'Service-Worker-Allowed: /',
    'IdP-SignIn-Status: action=signin',
  ],
  ...[
    'Access-Control-Allow-Origin: https://evil',
    'Access-Control-Expose-Headers: *',
    'Access-Control-Allow-Credentials: true',
  ],
  ...[
    'Content-Security-Policy-Report-Only: x',
    'Settlement-Overrides: {"amount":"0"}',
    'Clear-Site-Data: "*"',
    'Alt-Svc: h3=":443"',
  ],
  ...[
    'PAYMENT-REQUIRED: forged',
    'PAYMENT-RESPONSE: forged',
    'payment-signature: forged',
    'X-PAYMENT-RESPONSE: forged',
    'X-PAYMENT: forged',
  ],
  ...[
    'X-Purchase-Id: forged',
    'X-Review-Token: forged',
    'Report-To: {}',
    'Reporting-Endpoints: x="y"',
    'NEL: {}',
    'Refresh: 0',
    'Origin-Agent-Cluster: ?1',
  ],
  'Attribution-Reporting-Register-Source: {"source_event_id":"1"}',
  'Attribution-Reporting-Register-Trigger: {}',
  'Observe-Browsing-Topics: ?1',
  'Onion-Location: http://evil.onion/',
  'X-LiteSpeed-Purge: *',
  'X-LiteSpeed-Purge2: *',
  'X-I2P-Location: http://evil.i2p/',
  'Ad-Auction-Allowed: true',
  'X-Allow-FLEDGE: true',
  'Shared-Storage-Write: clear',
  'Cache-Group-Invalidation: "all"',
  'Cache-Groups: "all"',
  'Accept-CH-Lifetime: 86400',
  'X-Permitted-Cross-Domain-Policies: all',
  'Supports-Loading-Mode: credentialed-prerender',
  'Origin-Trial: token',
  ...['Keep-Alive: timeout=500', 'Proxy-Authenticate: Basic', 'Trailer: X-T', 'X-Nominated: x'],
]

for (const slug of ['free', 'paid', 'first'] as const) {
  t.test(`what a seller may not say for the gateway's origin stays behind (${slug})`, async (t) => {
    const head = [
      'HTTP/1.1 200 OK',
      'Content-Type: application/json',
      'Content-Length: 2',
      'Connection: keep-alive, X-Nominated',
      'X-Kept: yes',
    ]
    const liar = await rawSeller(t, `${[...head, ...forbidden].join('\r\n')}\r\n\r\n{}`)
    const price = slug === 'free' ? '0' : '0.10'
    const link = await gateway.addLink({
      slug: `liar-${slug}`,
      url: liar.url,
      price,
      settle: slug === 'first' ? 'before' : 'after',
    })
    const response = await fetch(link.url, {
      headers: { 'payment-signature': scriptedPayment(`h-${slug}`, '100000') },
    })
    t.equal(response.status, 200)
    t.equal(response.headers.get('x-kept'), 'yes')
    for (const line of forbidden) {
      const name = line.split(':', 1)[0]!.toLowerCase()
      if (name === 'keep-alive') continue
      const value = response.headers.get(name)
      const isOurs = slug !== 'free' && /^(payment-response|x-purchase-id|x-review-token)$/.test(name)
      if (isOurs) t.ok(value && !value.includes('forged'), `${name} is ours`)
      else t.equal(value, null, name)
    }
    t.equal(response.headers.get('cache-control'), slug === 'free' ? null : 'private, no-store')
  })
}

const cacheWords = [
  'Cache-Control',
  'CDN-Cache-Control',
  'Cloudflare-CDN-Cache-Control',
  'Vercel-CDN-Cache-Control',
  'Netlify-CDN-Cache-Control',
  'X-LiteSpeed-Cache-Control',
  'any_cache_control',
  'Surrogate-Control',
  'surrogate_control',
  'Edge-Control',
  'Edge-Cache-TTL',
  'Expires',
]

for (const status of ['200 OK', '404 Not Found']) {
  t.test(`no cache may keep what a paid link answers, whichever word it reads (${status})`, async (t) => {
    const lines = cacheWords.map((name) => `${name}: public, max-age=86400`)
    const cached = await rawSeller(
      t,
      `HTTP/1.1 ${status}\r\n${lines.join('\r\n')}\r\nContent-Length: 2\r\n\r\n{}`,
    )
    for (const settle of ['after', 'before'] as const) {
      const slug = `cached-${status.slice(0, 3)}-${settle}`
      const link = await gateway.addLink({ slug, url: cached.url, price: '0.10', settle })
      const buy = () => fetch(link.url, { headers: { 'payment-signature': scriptedPayment(slug, '100000') } })
      for (const response of [await buy(), await buy()]) {
        const found = cacheWords.filter((name) => response.headers.has(name))
        t.strictSame(found, ['Cache-Control'])
        // What the gateway says itself, of a charged failure, says no more than this.
        t.match(response.headers.get('cache-control'), /^(?:private, )?no-store$/)
      }
    }
    const free = await gateway.addLink({
      slug: `cached-${status.slice(0, 3)}-free`,
      url: cached.url,
      price: '0',
    })
    const response = await fetch(free.url)
    t.equal(response.headers.get('cdn-cache-control'), 'public, max-age=86400', 'a free link keeps its own')
  })
}

t.test('challenges that a browser or a payer answers by itself stay behind, others arrive', async (t) => {
  const dropped = [
    ...['Basic realm="x"', 'basic', 'DIGEST realm="x", nonce="n"', 'Negotiate', 'NTLM'],
    ...['Bearer realm="x", Basic realm="y"', 'Bearer,\tbasic', 'Payment id="a", method="tempo"'],
    ...['L402 macaroon="m", invoice="lnbc1"', 'LSAT macaroon="m"', 'x402 network="base"'],
  ]
  const kept = ['Bearer realm="Basic"', 'DPoP algs="ES256"', 'Basically', 'Bearer error="invalid_token"']
  for (const [i, challenge] of [...dropped, ...kept].entries()) {
    const asks = await rawSeller(
      t,
      `HTTP/1.1 402 Pay\r\nContent-Type: application/json\r\nWWW-Authenticate: ${challenge}\r\nContent-Length: 2\r\n\r\n{}`,
    )
    for (const price of ['0', '0.10']) {
      const link = await gateway.addLink({ slug: `asks-${i}-${price === '0'}`, url: asks.url, price })
      const payment = scriptedPayment(`asks-${i}`, '100000')
      const response = await fetch(link.url, { headers: { 'payment-signature': payment } })
      t.equal(response.status, 402)
      t.equal(
        response.headers.get('www-authenticate'),
        kept.includes(challenge) ? challenge : null,
        challenge,
      )
    }
  }
})

t.test('a page of a seller gets an origin of its own, JSON needs none', async (t) => {
  for (const [type, isConfined] of [
    ['text/html', true],
    ['image/svg+xml', true],
    ['', true],
    ['application/json; charset=utf-8', false],
  ] as const) {
    const line = type === '' ? '' : `Content-Type: ${type}\r\n`
    const page = await rawSeller(
      t,
      `HTTP/1.1 200 OK\r\n${line}Content-Security-Policy: default-src *\r\nX-Content-Type-Options: x\r\nContent-Length: 2\r\n\r\n{}`,
    )
    const link = await gateway.addLink({ slug: `page-${type.replace(/\W/g, '')}`, url: page.url })
    const { headers } = await fetch(link.url)
    t.equal(
      headers.get('content-security-policy'),
      isConfined ? 'sandbox allow-scripts allow-forms allow-downloads' : null,
    )
    t.equal(headers.get('x-content-type-options'), 'nosniff')
  }
})

t.test(
  'every answer of a seller is not to be sniffed, also when another part of the gateway hands it on',
  async (t) => {
    const kinds = { hello: 200, 'status-404': 404, 'status-500': 502 } as const
    for (const [kind, status] of Object.entries(kinds)) {
      const { url } = await startSeller(t, kind as keyof typeof kinds)
      for (const [way, fields] of Object.entries({
        free: {},
        wrapped: { price: '0.10' },
        raw: { price: '0.10', responseMode: 'raw' },
        streamed: { price: '0.10', settle: 'before' },
      } as const)) {
        const link = await gateway.addLink({ slug: `sniff-${kind}-${way}`, url, ...fields })
        const headers = { 'payment-signature': scriptedPayment(`sniff-${kind}-${way}`, '100000') }
        // The second one is answered from the store.
        for (const again of way === 'free' || status !== 200 ? [''] : ['', ', again']) {
          const response = await fetch(link.url, { headers })
          await response.arrayBuffer()
          t.equal(
            response.status,
            way === 'free' && kind === 'status-500' ? 500 : status,
            `${kind} ${way}${again}`,
          )
          if (response.status === 502) continue
          t.equal(response.headers.get('x-content-type-options'), 'nosniff', `${kind} ${way}${again}`)
          t.equal(response.headers.get('content-security-policy'), null, 'JSON needs no sandbox')
        }
      }
    }
  },
)

t.test('an answer head with line breaks or NUL is a 502 and nothing of it arrives', async (t) => {
  for (const kind of ['header-cr', 'header-lf', 'header-nul', 'header-space'] as const) {
    const bad = await startSeller(t, kind)
    const link = await gateway.addLink({ slug: kind, url: bad.url })
    const { text } = await talk(
      gateway.port,
      `GET ${link.path} HTTP/1.1\r\nHost: g\r\n\r\n`,
      hasWholeResponse,
    )
    t.match(text, /^HTTP\/1\.1 502 /, kind)
    t.notMatch(text, /stolen|set-cookie/i, kind)
  }
})

t.test('browsers may call from every page and read the offer and the receipt', async (t) => {
  const headers = { origin: 'https://page.example' }
  const preflight = await fetch(paid.url, {
    method: 'OPTIONS',
    headers: {
      ...headers,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'payment-signature, x-own',
    },
  })
  t.equal(preflight.status, 204)
  t.equal(preflight.headers.get('access-control-allow-origin'), '*')
  const allowed = preflight.headers.get('access-control-allow-headers')!.toLowerCase()
  for (const name of ['payment-signature', 'x-payment', 'access-control-expose-headers', 'x-own']) {
    t.ok(allowed.includes(name), name)
  }
  const exposed = (response: Response) =>
    response.headers.get('access-control-expose-headers')?.toLowerCase() ?? ''
  for (const [name, response] of [
    ['402', await fetch(paid.url, { headers })],
    [
      '200',
      await fetch(paid.url, {
        headers: { ...headers, 'payment-signature': scriptedPayment('cors', '100000') },
      }),
    ],
    ['400', await fetch(paid.url, { headers: { ...headers, 'payment-signature': 'junk' } })],
    ['404', await fetch(`${gateway.url}/api/link/demo/none`, { headers })],
    ['free', await fetch(free.url, { headers })],
  ] as const) {
    t.equal(response.headers.get('access-control-allow-origin'), '*', name)
    for (const header of ['payment-required', 'payment-response', 'x-payment-response']) {
      t.ok(exposed(response).includes(header), `${name} exposes ${header}`)
    }
    await response.arrayBuffer()
  }
})

t.test('a hostile list of requested headers is not echoed', async (t) => {
  const lines =
    'Origin: x\r\nAccess-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: a\xff<b>;"\r\n'
  const { text } = await talk(gateway.port, `OPTIONS ${paid.path} HTTP/1.1\r\nHost: g\r\n${lines}\r\n`, (s) =>
    s.includes('\r\n\r\n'),
  )
  t.match(text, /^HTTP\/1\.1 204 /)
  t.notMatch(text, /<b>/)
})
