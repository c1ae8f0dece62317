import t from 'tap'
import { feesAccountOf } from '../../core/domain/ledger.ts'
import type { ServedLink } from '../../core/domain/link.ts'
import { callAsOperator, startWithOperator } from '../../test/helpers/admin-api/operator.ts'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import type { Fixture } from '../../test/helpers/admin-api/startAdmin.ts'
import type { SettlingReport } from '../deps.ts'

const addLink = async (f: Fixture, key: string, more: object = {}) =>
  (await f.call('POST', '/api/v1/links', { key, body: { url: await f.seller(), title: 'One', ...more } }))
    .body.data

const suspended = (sinceMs: number, more: object = {}) => ({
  ...{ sinceMs, reason: 'Five health checks failed.', cooldownUntilMs: sinceMs + 60_000, permanent: false },
  ...more,
})

t.test('what a store has paid is listed also where nothing that it sold is left', async (t) => {
  const f = await startWithOperator(t)
  const { ask } = await callAsOperator(f)
  const { id } = await f.store()
  await sell(f.db, { storeId: feesAccountOf(id), linkId: '', amount: '1', atMs: f.clock.nowMs })
  t.match((await ask('GET', '/api/operator/stores')).body.data.rows, [
    { id, purchases: 0, feesOwed: [{ currency: 'USDC', amount: '-1.00' }], lastSaleAt: null },
  ])
})

t.test('stores are listed with what they sold in 30 days and owe', async (t) => {
  const f = await startWithOperator(t)
  const { ask } = await callAsOperator(f)
  t.strictSame((await ask('GET', '/api/operator/stores')).body.data, { rows: [], next: null })
  const { id: storeId, key, username } = await f.store()
  const { id: linkId } = await addLink(f, key)
  const day = 86_400_000
  await sell(f.db, { storeId, linkId, amount: '2', atMs: f.clock.nowMs - 30 * day })
  await sell(f.db, { storeId, linkId, amount: '0.5', atMs: f.clock.nowMs - day })
  const quiet = await f.store()
  const { rows, next } = (await ask('GET', '/api/operator/stores')).body.data
  t.equal(next, null)
  t.strictSame(new Set(rows.map((row: { id: string }) => row.id)), new Set([storeId, quiet.id]))
  const owed = (await f.call('GET', '/api/v1/fees', { key })).body.data.owed[0]
  t.match(
    rows.find((row: { id: string }) => row.id === storeId),
    {
      ...{ username, links: 1, purchases: 1, revenue: '0.50' },
      lastSaleAt: new Date(f.clock.nowMs - day).toISOString(),
      feesOwed: [{ currency: 'USDC', network: 'eip155:84532', amount: owed.amount }],
    },
    'what is owed is what the seller sees',
  )
  t.match(
    rows.find((row: { id: string }) => row.id === quiet.id),
    { links: 0, purchases: 0, revenue: '0.00', feesOwed: { length: 0 }, lastSaleAt: null },
  )
  const found = await ask('GET', `/api/operator/stores?search=${username.slice(1).toUpperCase()}`)
  t.strictSame(
    found.body.data.rows.map((row: { id: string }) => row.id),
    [storeId],
  )
  t.strictSame((await ask('GET', '/api/operator/stores?search=%25')).body.data.rows, [])
})

t.test('more stores than a page has are on the next one, each once', async (t) => {
  const f = await startWithOperator(t)
  const { ask } = await callAsOperator(f)
  const made = await Promise.all(Array.from({ length: 23 }, () => f.store()))
  const first = (await ask('GET', '/api/operator/stores')).body.data
  t.equal(first.rows.length, 20)
  const second = (await ask('GET', `/api/operator/stores?after=${first.next}`)).body.data
  t.equal(second.next, null)
  const names = [...first.rows, ...second.rows].map((row: { username: string }) => row.username)
  t.strictSame(names, made.map(({ username }) => username).sort())
})

t.test('the operator lifts a permanent suspension when the API is well, and not before', async (t) => {
  const f = await startWithOperator(t)
  const { ask } = await callAsOperator(f)
  t.strictSame((await ask('GET', '/api/operator/suspensions')).body.data, { total: 0, rows: [] })
  const { key, username } = await f.store()
  let isWell = false
  let probes = 0
  const url = await f.seller((_request, response) => {
    probes++
    response.writeHead(isWell ? 200 : 500).end('{}')
  })
  isWell = true
  const { id, slug } = await addLink(f, key, { url })
  isWell = false
  await f.db.links.setSuspension(id, suspended(f.clock.nowMs, { permanent: true }), f.clock.nowMs)
  t.match((await ask('GET', '/api/operator/suspensions')).body.data, {
    total: 1,
    rows: [{ id, link: `${username}/${slug}`, reason: /health checks/, permanent: true, since: String }],
  })
  const bySeller = await f.call('POST', `/api/v1/links/${id}/re-enable`, { key })
  t.match(bySeller, { status: 409, body: { permanent: true } })
  const lift = () => ask('POST', `/api/operator/suspensions/${id}/lift`)
  t.match(await lift(), { status: 422, body: { error: { code: 'API_NOT_RESPONDING' } } })
  t.equal((await f.db.links.find(id))?.suspension?.permanent, true)
  isWell = true
  probes = 0
  f.changes.length = 0
  t.match(await lift(), { status: 200, body: { data: { message: /re-enabled/ } } })
  t.equal(probes, 2)
  t.equal((await f.db.links.find(id))?.suspension, null)
  t.match(f.changes, [{ kind: 'link', username, slug }], 'the gateway hears of it')
  const [event] = await f.db.links.healthEvents(id, 1)
  t.match(event, { kind: 're-enabled', detail: 'Re-enabled by the operator.' })
  t.strictSame((await ask('GET', '/api/operator/suspensions')).body.data.rows, [])
  await f.db.links.setSuspension(id, suspended(f.clock.nowMs, { cooldownUntilMs: f.clock.nowMs + 1e9 }), 1)
  t.equal((await lift()).status, 200, 'the operator need not wait')
  t.equal((await ask('POST', `/api/operator/suspensions/${crypto.randomUUID()}/lift`)).status, 404)
})

t.test('only the operator sees any of it, and changes it only from the page', async (t) => {
  const f = await startWithOperator(t)
  const { key } = await f.store()
  const { id } = await addLink(f, key)
  const lift = `/api/operator/suspensions/${id}/lift`
  for (const path of ['stores', 'suspensions', 'settling', 'program?link=a/b']) {
    t.equal((await f.call('GET', `/api/operator/${path}`)).status, 401)
    t.equal((await f.call('GET', `/api/operator/${path}`, { key })).status, 401)
  }
  t.equal((await f.call('POST', lift, { key })).status, 401)
  const { headers } = await callAsOperator(f)
  const { 'x-csrf-token': _, ...withoutToken } = headers
  t.equal((await f.call('POST', lift, { headers: withoutToken })).status, 403)
})

t.test('the program of a link is found by whatever address of it somebody has', async (t) => {
  const requests: ServedLink[] = []
  const f = await startWithOperator(t, {
    pipelineOf(link) {
      requests.push(link)
      return {
        steps: [{ phase: 'guard', plugin: 'rate-limit' }],
        ...{ deliver: ['replay-guard'], log: ['metrics'], problems: [], takesNoPayment: false },
        entries: [
          {
            ...{
              plugin: 'rate-limit',
              phases: ['guard', 'log'],
              when: { links: ['ann/*'], paid: undefined },
            },
            settings: [{ name: 'points', value: 5, isDefault: false }],
          },
        ],
      }
    },
  })
  const { ask } = await callAsOperator(f)
  const { key, username } = await f.store()
  const { id, slug } = await addLink(f, key)
  for (const address of [
    `${username}/${slug}`,
    ` /${username}/${slug} `,
    `https://pay.example/${username}/${slug}`,
    `https://pay.example/api/link/${username}/${slug}?a=b#c`,
  ]) {
    const response = await ask('GET', `/api/operator/program?link=${encodeURIComponent(address)}`)
    t.match(response.body.data, {
      ...{ id, link: `${username}/${slug}`, isSuspended: false, deliver: ['replay-guard'] },
      steps: [{ phase: 'guard', plugin: 'rate-limit' }],
      entries: [{ links: ['ann/*'], paid: null, settings: [{ name: 'points', value: 5, isDefault: false }] }],
    })
  }
  t.equal(requests.length, 4)
  for (const address of ['nobody/none', 'https://pay.example/a/b/c', '../..', "x'--/y", username])
    t.equal(
      (await ask('GET', `/api/operator/program?link=${encodeURIComponent(address)}`)).status,
      404,
      address,
    )
})

t.test(
  'settling keys are shown in coins, and one whose nodes are away with what was known last',
  async (t) => {
    const address = '0x00000000000000000000000000000000000000aa'
    const reports: SettlingReport[] = [
      {
        ...{ network: 'eip155:84532', settler: `evm:eip155:84532:${address}`, openAttempts: 2 },
        key: {
          value: {
            ...{ address, balance: 10n ** 16n, paymentsLeft: 900n, inFlight: 1 },
            nonce: { mined: 41, pending: 42 },
          },
          ...{ atMs: Date.UTC(2026, 5, 1), fault: 'No answer in 2.5 s.' },
        },
        gas: { today: 21_000n * 10n ** 9n, week: 10n ** 15n },
        lease: { id: 7, endsInMs: 9_000, process: { id: 77, isThis: true } },
      },
      {
        ...{
          network: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1',
          settler: 'svm:solana:Et:Fee111',
          openAttempts: 0,
        },
        ...{ key: { value: undefined, atMs: undefined, fault: 'away' }, gas: { today: 0n, week: 5_000n } },
        lease: 'any',
      },
      {
        ...{ network: 'eip155:8453', settler: 'https://x402.example', openAttempts: 0, key: null },
        ...{ gas: { today: 0n, week: 0n }, lease: 'any' },
      },
    ]
    const f = await startWithOperator(t, { settling: async () => reports })
    const { ask } = await callAsOperator(f)
    t.match((await ask('GET', '/api/operator/settling')).body.data.rows, [
      {
        ...{
          address,
          balance: '0.01 ETH',
          paymentsLeft: '900',
          nonce: { mined: 41, pending: 42 },
          openAttempts: 2,
        },
        ...{
          gasToday: '0.000021 ETH',
          gasWeek: '0.001 ETH',
          asOf: '2026-06-01T00:00:00.000Z',
          fault: /No answer/,
        },
        lease: { state: 'held', processId: 77, isThis: true },
      },
      { address: 'Fee111', balance: null, fault: 'away', gasWeek: '0.000005 SOL', lease: { state: 'any' } },
      { facilitator: 'https://x402.example', address: null, balance: null, fault: null },
    ])
  },
)
