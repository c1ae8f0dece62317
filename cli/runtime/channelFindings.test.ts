import t from 'tap'
import type { Channel } from '../../core/domain/channel.ts'
import type { AuditedChannel } from '../../core/ports/store/channelBooks.ts'
import { channelFindings } from './channelFindings.ts'

const network = 'eip155:84532'
const idOf = (n: number) => `0x${String(n).padStart(64, '0')}`

const channelOf = (n: number, charged: bigint, totalClaimed = 0n): Channel => ({
  id: idOf(n),
  network,
  storeId: 'store-1',
  config: {
    payer: '0x11',
    payerAuthorizer: '0x22',
    receiver: '0x33',
    receiverAuthorizer: '0x44',
    token: '0x5a',
    withdrawDelay: 3_600,
    salt: '0x66',
  },
  charged,
  signed: charged,
  signature: '0x77',
  published: null,
  balance: 1_000n,
  totalClaimed,
  pendingWithdrawal: 0n,
  withdrawRequestedAtSeconds: 0,
  refundNonce: 0n,
})

/** Doctor beside a gateway that charges and claims each channel while doctor reads the contract. */
function partsWith(channels: Map<string, Channel>, unsettled: bigint) {
  const audit = async (after: string | null, limit: number): Promise<AuditedChannel[]> =>
    [...channels.values()]
      .filter(({ id }) => after === null || id > after)
      .slice(0, limit)
      .map((channel) => ({ channel, baseAtomic: 0n, summedAtomic: channel.charged }))
  const chain = {
    async read(ids: readonly string[]) {
      for (const [at, channel] of channels)
        if (ids.includes(at)) channels.set(at, { ...channel, charged: 20n, totalClaimed: 20n })
      return ids.map((id) => channels.get(id)!)
    },
    unsettled: async () => [unsettled],
    signsFor: () => true,
    isSigned: () => true,
  }
  const asset = { network, address: '0x5A', symbol: 'USDC', decimals: 6, feeBps: 0, usdPerUnit: '1' }
  return {
    store: { channelBooks: { audit, wrongTotals: async () => [] } },
    chains: { assets: [asset], channels: new Map([[network, { chain }]]) },
  } as unknown as Parameters<typeof channelFindings>[0]
}

const many = (count: number) =>
  new Map(Array.from({ length: count }, (_, n) => [idOf(n), channelOf(n, 10n)] as const))

t.test('calls and claims of a gateway that runs are no problem for doctor', async (t) => {
  t.match(await channelFindings(partsWith(many(1), 0n), true), [
    { ok: true, message: '1 channels, 0 with unclaimed money' },
  ])
  t.equal((await channelFindings(partsWith(many(1), 0n), true)).length, 1)
})

t.test('what is not paid out is reported once for a wallet with many channels', async (t) => {
  const found = await channelFindings(partsWith(many(120), 5n), true)
  t.equal(found.filter(({ message }) => message.includes('not paid out yet')).length, 1)
  t.match(found[0], { message: '120 channels, 0 with unclaimed money' })
})

t.test('a network that cannot be read is tried once, and the rest of the check goes on', async (t) => {
  const parts = partsWith(many(120), 0n)
  let reads = 0
  const { chain } = parts.chains.channels.get(network)!
  chain.read = async () => {
    reads++
    throw new Error('no response')
  }
  const found = await channelFindings(parts, true)
  t.equal(reads, 1)
  t.match(found, [
    { message: '120 channels, 120 with unclaimed money' },
    { isWarning: true, message: /could not be read: no response/ },
  ])
  t.equal(found.length, 2)
})
