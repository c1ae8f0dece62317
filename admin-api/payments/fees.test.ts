import t, { type Test } from 'tap'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

/** A store that sells at a fee of 5 %, and the fees that it is shown. */
async function shop(t: Test) {
  const f = await startAdmin(t, {
    refundProofs: { prove: async () => ({ status: 'proved', paymentKeys: [] }) },
  })
  const store = await f.store()
  const url = await f.seller()
  const { id: linkId } = (
    await f.call('POST', '/api/v1/links', { key: store.key, body: { url, title: 'One' } })
  ).body.data
  return {
    f,
    ...store,
    sale: (amount: string) => sell(f.db, { storeId: store.id, linkId, amount, atMs: f.clock.nowMs }),
    refund: (id: string, digit: string) =>
      f.call('POST', `/api/v1/purchases/${id}/refunds`, {
        key: store.key,
        body: { txHash: `0x${digit.repeat(64)}` },
      }),
    fees: (query = '', headers: Record<string, string> = {}, key = store.key) =>
      f.call('GET', `/api/v1/fees${query}`, { key, headers }),
  }
}

t.test('statements say what was sold, what was paid back, and what is owed', async (t) => {
  const { f, sale, refund, fees } = await shop(t)
  t.strictSame((await fees()).body.data, { months: [], owed: [] })
  f.clock.nowMs = Date.UTC(2026, 9, 15)
  const first = await sale('1')
  await sale('0.30')
  f.clock.nowMs = Date.UTC(2026, 10, 15)
  await sale('0.000019')
  t.equal((await refund(first, 'b')).status, 200)
  const { body } = await fees()
  const asset = body.data.owed[0].asset
  const unit = { currency: 'USDC', chain: 'base', network: 'eip155:84532', asset }
  t.strictSame(body.data, {
    months: [
      {
        ...{ month: '2026-11', ...unit, sales: 1, salesAmount: '0.000019', fees: '0.00' },
        ...{ refunds: 1, refundedAmount: '1.00', feesReturned: '0.05', balance: '-0.05', paid: '0.00' },
      },
      {
        ...{ month: '2026-10', ...unit, sales: 2, salesAmount: '1.30', fees: '0.065' },
        ...{ refunds: 0, refundedAmount: '0.00', feesReturned: '0.00', balance: '0.065', paid: '0.00' },
      },
    ],
    owed: [{ ...unit, amount: '0.015', payable: false }],
  })
  const october = (await fees('?from=2026-10&to=2026-10')).body.data
  t.strictSame(october, { months: [body.data.months[1]], owed: body.data.owed })
  t.strictSame((await fees('?from=2026-12')).body.data.months, [])
})

t.test('with Accept: text/csv the months are a table', async (t) => {
  const { f, sale, fees } = await shop(t)
  f.clock.nowMs = Date.UTC(2026, 9, 15)
  await sale('2')
  const { status, headers, text } = await fees('', { accept: 'text/csv' })
  t.match([status, headers['content-type'], headers['vary']], [200, /^text\/csv/, /Accept/])
  const [head, line, rest] = text.split('\r\n')
  t.equal(
    head,
    'month,currency,chain,network,asset,sales,salesAmount,fees,refunds,refundedAmount,feesReturned,balance,paid',
  )
  t.match(line, /^2026-10,USDC,base,eip155:84532,0x\w{40},1,2\.00,0\.10,0,0\.00,0\.00,0\.10,0\.00$/)
  t.equal(rest, '')
  t.match((await fees('', { accept: 'application/json, text/csv' })).body, { success: true })
})

t.test('nobody reads the fees of another store, and months that are none are refused', async (t) => {
  const { f, sale, fees } = await shop(t)
  await sale('5')
  const other = await f.store()
  t.strictSame((await fees('', {}, other.key)).body.data, { months: [], owed: [] })
  t.equal((await f.call('GET', '/api/v1/fees')).status, 401)
  for (const query of ['?from=2026', '?to=2026-13', '?from=2026-1', '?from=', '?from=2026-01-01']) {
    const { status, body } = await fees(query)
    t.match({ status, body }, { status: 400, body: { error: { code: 'VALIDATION_ERROR' } } }, query)
  }
})
