import { array, assert, bigInt, constant, oneof, property, record } from 'fast-check'
import t from 'tap'
import { afterCharge, type Channel, claimable, isPublic, withState } from './channel.ts'

const hex = (byte: string, bytes: number): string => `0x${byte.repeat(bytes)}`
const fresh: Channel = {
  id: hex('ab', 32),
  network: 'eip155:84532',
  storeId: 'store',
  config: {
    payer: hex('11', 20),
    payerAuthorizer: hex('22', 20),
    receiver: hex('33', 20),
    receiverAuthorizer: hex('44', 20),
    token: hex('55', 20),
    withdrawDelay: 3_600,
    salt: hex('66', 32),
  },
  charged: 0n,
  signed: 0n,
  signature: null,
  published: null,
  balance: 1_000n,
  totalClaimed: 0n,
  pendingWithdrawal: 0n,
  withdrawRequestedAtSeconds: 0,
  refundNonce: 0n,
}

const steps = array(
  oneof(
    // Few prices, so that the totals of different vouchers are often the same.
    record({ type: constant('call' as const), price: bigInt(1n, 6n), used: bigInt(0n, 6n) }),
    record({ type: constant('claim' as const) }),
  ),
  { maxLength: 40 },
)

t.test('calls of any prices that have used any part of them, with claims between', async () => {
  assert(
    property(steps, (taken) => {
      let channel = fresh
      const published = new Set<bigint>()
      let due = 0n
      for (const step of taken) {
        if (step.type === 'claim') {
          if (channel.charged === channel.totalClaimed) continue
          if (channel.signature !== `signed ${channel.signed}`) return false
          if (claimable(channel) > channel.signed) return false
          published.add(channel.signed)
          channel = withState(channel, { ...channel, totalClaimed: claimable(channel) })
          continue
        }
        const used = step.used % (step.price + 1n)
        const maxClaimable = channel.charged + step.price
        // A stranger has every voucher that a claim has published, and no other.
        if (isPublic(channel, maxClaimable) !== published.has(maxClaimable)) return false
        if (published.has(maxClaimable)) continue
        const voucher = { maxClaimable, signature: `signed ${maxClaimable}` }
        channel = afterCharge(channel, channel.charged + used, voucher)
        due += used
        if (channel.charged !== due || channel.signed < channel.charged) return false
        if (channel.totalClaimed > channel.charged) return false
      }
      return true
    }),
    { numRuns: 2_000 },
  )
})

t.test('a channel that has claimed more than its row has charged continues from the claim', async (t) => {
  const charged = afterCharge(fresh, 10n, { maxClaimable: 30n, signature: 'signed 30' })
  const behind = withState(charged, { ...charged, totalClaimed: 20n })
  t.match(behind, { charged: 20n, signed: 20n, signature: null, published: 30n })
  t.ok(isPublic(behind, 30n))
  t.match(afterCharge(behind, 21n, { maxClaimable: 31n, signature: 'signed 31' }), {
    charged: 21n,
    signed: 31n,
    signature: 'signed 31',
  })
})
