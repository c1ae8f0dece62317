import { connect } from 'node:net'
import t from 'tap'
import { request } from 'undici'
import { get, startImpatient, statusOf } from './helpers/impatient.ts'
import { hasWholeResponse, talk, until } from './helpers/rawHttp.ts'
import { rawSeller } from './helpers/sellerOf.ts'
import { rawKinds, startSeller } from './helpers/sellers.ts'

const { settler, gateway, pay } = await startImpatient(t, 'bad')

t.test('whatever a seller sends, the answer is whole or the connection is broken', async (t) => {
  const whole = new Set(['big'])
  for (const kind of rawKinds) {
    const seller = await startSeller(t, kind)
    const link = await gateway.addLink({ slug: `raw-${kind}`, url: seller.url })
    // These two never end, and a free stream may take as long as it likes.
    if (kind === 'endless' || kind === 'slow-body') continue
    const outcome = await fetch(link.url)
      .then(statusOf)
      .catch(() => 'broken')
    const good = whole.has(kind) ? [200] : [502, 504, 'broken']
    // Fewer bytes than are there: the answer that was announced is whole.
    const cut = ['length-too-short', 'two-answers'].includes(kind) ? [200] : []
    t.ok([...good, ...cut].includes(outcome), `${kind}: ${outcome}`)
    await until(() => seller.connections.size <= 1, `${kind} to be let go`)
  }
})

t.test('a paid answer that does not come whole costs nothing', async (t) => {
  for (const kind of [...rawKinds, 'gzip-bomb', 'status-500', 'redirect'] as const) {
    if (['length-too-short', 'two-answers'].includes(kind)) continue
    const seller = await startSeller(t, kind)
    const link = await gateway.addLink({ slug: `bad-${kind}`, url: seller.url, price: '0.10' })
    const before = settler.transfers.length
    const response = await fetch(link.url, { headers: pay() })
    t.ok([502, 504].includes(response.status), `${kind}: ${response.status}`)
    t.match(
      await response.json(),
      { error: { code: /^upstream_(error|timeout)$/, message: /You were not charged/ } },
      kind,
    )
    t.equal(settler.transfers.length, before, `${kind}: not charged`)
  }
})

t.test('a dead seller is a 502', async (t) => {
  const seller = await startSeller(t, 'hello')
  await seller.close()
  const link = await gateway.addLink({ slug: 'dead', url: seller.url })
  t.equal((await fetch(link.url)).status, 502)
})

t.test('interim answers without end do not hold a call', async (t) => {
  const seller = await startSeller(t, 'interim-flood')
  for (const [slug, price] of [
    ['interim-free', '0'],
    ['interim-paid', '0.10'],
  ] as const) {
    const link = await gateway.addLink({ slug, url: seller.url, price })
    const response = await fetch(link.url, { headers: pay() })
    t.equal(response.status, 502)
    await response.arrayBuffer()
  }
  await until(() => seller.connections.size === 0)
})

t.test('a flood of interim answers is not read: before a body, in it, and in one piece', async (t) => {
  const interim = 'HTTP/1.1 100 Continue\r\n\r\n'
  const floods = { 100: interim, 103: interim.replace('100 Continue', '103 Early Hints') }
  for (const [name, one] of Object.entries(floods)) {
    const seller = await rawSeller(t, `${one.repeat(5_000)}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`)
    const link = await gateway.addLink({ slug: `flood-${name}`, url: seller.url })
    // The second body is streamed, by another client.
    for (const body of [null, 'x', 'x'.repeat(1_000_000)]) {
      const method = body === null ? 'GET' : 'POST'
      // A connection each: one that waits for the seller's to end may end itself meanwhile.
      const response = await request(link.url, { method, body, reset: true })
      t.equal(response.statusCode, 502, `${name} ${body?.length}`)
      await response.body.dump()
    }
    await until(() => seller.connections.size === 0, 'the connections to be given back')
    t.equal(seller.calls, 3)
  }
})

t.test('interim answers before the real one are not forwarded and do no harm', async (t) => {
  const interim = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
  const seller = await rawSeller(
    t,
    `HTTP/1.1 100 Continue\r\n\r\n${interim}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`,
  )
  const link = await gateway.addLink({ slug: 'hints', url: seller.url })
  const { statuses, text } = await talk(gateway.port, get(link.path), hasWholeResponse)
  t.strictSame(statuses, [200])
  t.match(text, /\r\n\r\nok$/)
})

t.test('a cut answer never looks whole, to HTTP/1.0 neither', async (t) => {
  for (const kind of ['truncated', 'reset-mid-body', 'length-too-long', 'stalled-body'] as const) {
    const seller = await startSeller(t, kind)
    const link = await gateway.addLink({ slug: `cut-${kind}`, url: seller.url })
    const { text } = await talk(gateway.port, get(link.path))
    t.notMatch(text, /0\r\n\r\n$/, `${kind}: no last chunk`)
    const length = /content-length: (\d+)/i.exec(text)?.[1]
    if (length) t.ok(text.split('\r\n\r\n')[1]!.length < Number(length) || text.includes(' 502 '), kind)
    const old = connect(gateway.port, '127.0.0.1')
    const end = new Promise<string>((resolve) => {
      old.on('error', (error) => resolve((error as NodeJS.ErrnoException).code!))
      old.on('end', () => resolve('end'))
    })
    let output = ''
    old.on('data', (chunk) => (output += chunk))
    old.write(`GET ${link.path} HTTP/1.0\r\n\r\n`)
    const how = await end
    old.destroy()
    t.ok(how === 'ECONNRESET' || / 502 | 504 /.test(output), `${kind}: ${how}`)
  }
})
