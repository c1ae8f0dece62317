import t from 'tap'
import type { PaymentRecord } from '../../../../core/domain/payment.ts'
import { addressWord, topics, uintWord } from '../../../../core/evm/token.ts'
import { type Log, silentLog } from '../../../../core/ports/log.ts'
import { type LooseResponse, RpcRefused, RpcUnreachable } from '../../../../core/rpc/post.ts'
import type { Rpc, RpcCall } from '../../../../core/rpc/rpc.ts'
import { network, recordOf, seller, usdc } from '../../../../test/helpers/chains/evm/settler.ts'
import { createRecovery } from './recovery.ts'

const payer = `0x${'11'.repeat(20)}`
const word = (n: number, with_: string) => `0x${with_}${n.toString(16).padStart(62, '0')}`
const nonceOf = (n: number) => word(n, 'aa')
const hashOf = (n: number) => word(n, 'bb')

const paymentOf = (n: number, changes: Partial<PaymentRecord> = {}): PaymentRecord => ({
  ...recordOf(
    {
      key: `key-${n}`,
      network,
      asset: usdc.address,
      payer,
      nonce: nonceOf(n),
      payTo: seller,
      amountAtomic: 10_000n,
      validBeforeMs: 3_000_000,
    },
    {
      settler: 'evm',
      bytes: `0x02${n.toString(16).padStart(8, '0')}`,
      transaction: hashOf(n),
      sequence: String(n),
    },
  ),
  claimedAtMs: 2_000_000,
  ...changes,
})
const payments = (count: number) => Array.from({ length: count }, (_, n) => paymentOf(n))

/** A chain whose state the test sets, and which counts its requests. */
function scriptedChain({ number = 5_000, seconds = 2_900, confirmations = 1 } = {}) {
  const head = { number, timestamp: seconds, baseFee: 1n, blockGas: 30_000_000n, balance: 1n }
  /** Transaction by its hash: its block, what it moved or only used up, and whether it succeeded. */
  const mined = new Map<string, { block: number; nonces: string[]; reverted?: true; cancelled?: true }>()
  const byMethod = new Map<string, number>()
  let requests = 0
  let refuse: (call: RpcCall) => LooseResponse | undefined = () => undefined
  let noncesUsed = (_address: string, _block: number): number => 0
  const abandoned: (string | null)[] = []

  const logsOf = (transactionHash: string) => {
    const { nonces, reverted, cancelled } = mined.get(transactionHash)!
    if (reverted) return []
    if (cancelled) {
      const [nonce] = nonces
      const result = [topics.authorizationCanceled, `0x${addressWord(payer)}`, nonce]
      return [{ address: usdc.address, topics: result, data: '0x', logIndex: '0x0', transactionHash }]
    }
    return nonces.flatMap((nonce, i) => [
      {
        address: usdc.address,
        topics: [topics.authorizationUsed, `0x${addressWord(payer)}`, nonce],
        data: '0x',
        logIndex: `0x${(2 * i).toString(16)}`,
        transactionHash,
      },
      {
        address: usdc.address,
        topics: [topics.transfer, `0x${addressWord(payer)}`, `0x${addressWord(seller)}`],
        data: `0x${uintWord('10000')}`,
        logIndex: `0x${(2 * i + 1).toString(16)}`,
        transactionHash,
      },
    ])
  }
  const isUsed = (nonce: string) =>
    [...mined.values()].some(({ nonces, reverted }) => !reverted && nonces.includes(nonce))
  const say: Record<string, (params: readonly unknown[]) => unknown> = {
    eth_getTransactionReceipt: ([hash]) => {
      const found = mined.get(hash as string)
      if (found === undefined) return null
      const blockNumber = `0x${found.block.toString(16)}`
      const status = found.reverted ? '0x0' : '0x1'
      return { transactionHash: hash, blockNumber, status, logs: logsOf(hash as string) }
    },
    eth_call: ([call]) => {
      const nonce = `0x${(call as { data: string }).data.slice(-64)}`
      return `0x${(isUsed(nonce) ? '1' : '0').padStart(64, '0')}`
    },
    eth_getBlockByNumber: ([block]) => ({
      number: block,
      timestamp: `0x${(seconds - (number - Number(block))).toString(16)}`,
    }),
    eth_getLogs: ([filter]) => {
      const nonces = (filter as { topics: [unknown, unknown, string[]] }).topics[2]
      return [...mined.keys()].flatMap(logsOf).filter(({ topics: [, , nonce] }) => nonces.includes(nonce!))
    },
    eth_sendRawTransaction: () => hashOf(0),
    eth_getTransactionCount: ([of, block]) => `0x${noncesUsed(String(of), Number(block)).toString(16)}`,
  }
  const rpc: Rpc = {
    call: () => Promise.reject(new Error('nothing is asked alone')),
    callWithin: () => Promise.reject(new Error('nothing is asked alone')),
    batch: () => Promise.reject(new Error('nothing hangs on its neighbours')),
    async many(calls) {
      requests += Math.ceil(calls.length / 50)
      return calls.map((call): LooseResponse => {
        byMethod.set(call.method, (byMethod.get(call.method) ?? 0) + 1)
        return refuse(call) ?? { ok: true, result: say[call.method]!(call.params) }
      })
    },
  }
  let isUnavailable = false
  const warnings: string[] = []
  const log: Log = { ...silentLog, warn: (_facts, message) => void warnings.push(String(message)) }
  const recovery = createRecovery({
    options: { network: 'eip155:84532', log, confirmations, expiryMarginSeconds: 30 },
    rpc,
    accounts: [
      {
        id: 'evm',
        address: payer,
        mined: () => undefined,
        repair: async () => undefined,
        abandon: ({ sequence }) => void abandoned.push(sequence),
      },
    ],
    heads: { fresh: async () => (isUnavailable ? Promise.reject(new Error('away')) : head) },
  })
  return {
    ...recovery,
    head,
    mined,
    byMethod,
    requests: () => requests,
    abandoned,
    warnings,
    /** The unchanged response to this method. */
    say: (method: string, ...params: unknown[]) => say[method]!(params) as object,
    use: (how: typeof noncesUsed) => void (noncesUsed = how),
    refuse: (how: typeof refuse) => void (refuse = how),
    away: (is: boolean) => void (isUnavailable = is),
  }
}

const nodeFault: LooseResponse = { ok: false, error: new RpcUnreachable('away') }
const tooMuch: LooseResponse = { ok: false, error: new RpcRefused(-32602, 'too many topics') }

t.test('3,000 open payments that were mined are found with one call each, in 60 requests', async (t) => {
  const chain = scriptedChain()
  const open = payments(3_000)
  for (const n of open.keys()) chain.mined.set(hashOf(n), { block: 4_990, nonces: [nonceOf(n)] })
  const outcomes = await chain.recover(open)
  t.ok(outcomes.every(({ status }, n) => status === 'settled' && outcomes[n]))
  t.match(outcomes[7], { transaction: hashOf(7), event: '0', block: 4_990, chargedAtomic: 10_000n })
  t.same([...chain.byMethod], [['eth_getTransactionReceipt', 3_000]])
  t.equal(chain.requests(), 60)
})

t.test('3,000 that never left are sent again with three calls each', async (t) => {
  const chain = scriptedChain()
  const outcomes = await chain.recover(payments(3_000))
  t.ok(outcomes.every((outcome) => outcome.status === 'pending' && outcome.recheckMs === 2_000))
  t.same(
    [...chain.byMethod],
    ['eth_getTransactionReceipt', 'eth_call', 'eth_sendRawTransaction'].map((method) => [method, 3_000]),
  )
})

t.test(
  'a hundred that somebody else landed in one transaction: one search, one receipt, each its event',
  async (t) => {
    const chain = scriptedChain()
    const foreign = hashOf(9_999)
    const open = payments(100)
    chain.mined.set(foreign, { block: 4_900, nonces: open.map(({ nonce }) => nonce) })
    const outcomes = await chain.recover(open)
    t.same(
      outcomes,
      open.map((_, n) => ({
        status: 'settled',
        transaction: foreign,
        event: String(2 * n),
        block: 4_900,
        chargedAtomic: 10_000n,
      })),
    )
    t.equal(chain.byMethod.get('eth_getLogs'), 1)
    t.equal(chain.byMethod.get('eth_getTransactionReceipt'), 101)
  },
)

t.test(
  'the same authorisation mined by somebody else while ours reverts is found by its event',
  async (t) => {
    const chain = scriptedChain()
    chain.mined.set(hashOf(0), { block: 4_901, nonces: [nonceOf(0)], reverted: true })
    chain.mined.set(hashOf(50), { block: 4_900, nonces: [nonceOf(0)] })
    t.match(await chain.recover([paymentOf(0)]), [{ status: 'settled', transaction: hashOf(50) }])
  },
)

const spoiledReceipts = [
  ['without a status', { status: undefined }],
  ['with a status that is a number', { status: 1 }],
  ['with a status of another form', { status: '0x01' }],
  ['that says it was reverted', { status: '0x0' }],
  ['that says it was reverted, without events', { status: '0x0', logs: [] }],
  ['without the events', { logs: [] }],
  ['with something else than an event', { logs: [null] }],
  ['with an event of nobody', { logs: [{ topics: [], data: '0x', logIndex: '0x0' }] }],
  ['with an event whose words are none', { logs: [{ address: payer, topics: [1], logIndex: '0x0' }] }],
] as const
const isReadable = (spoil: { status?: unknown; logs?: readonly unknown[] }): boolean =>
  'status' in spoil ? spoil.status === '0x0' : spoil.logs?.length === 0
for (const [what, spoil] of spoiledReceipts)
  t.test(
    `what the chain has charged does not fail by a receipt ${what}, nor does another one’s`,
    async (t) => {
      const chain = scriptedChain()
      for (const n of [0, 1]) chain.mined.set(hashOf(n), { block: 4_900, nonces: [nonceOf(n)] })
      const [whole] = await chain.recover([paymentOf(0)])
      t.match(whole, { status: 'settled' })
      chain.refuse(({ method, params: [hash] }) =>
        method === 'eth_getTransactionReceipt' && hash === hashOf(0)
          ? { ok: true, result: { ...chain.say(method, hash), ...spoil } }
          : undefined,
      )
      const outcomes = await chain.recover([paymentOf(0), paymentOf(1)])
      t.match(outcomes, [{ status: 'pending', reason: 'settlement_pending' }, { status: 'settled' }])
      const unread = chain.warnings.filter((one) => one.includes('receipt that cannot be read')).length
      await chain.recover([paymentOf(0)])
      t.equal(chain.warnings.filter((one) => one.includes('receipt that cannot be read')).length, unread)
      t.equal(unread, isReadable(spoil) ? 0 : 1, 'which is said once')
      chain.refuse(() => undefined)
      t.strictSame(await chain.recover([paymentOf(0)]), [whole], 'and is found once a node says it')
    },
  )

t.test(
  'an event that can not be read, among those that are looked for, is one payment’s fault',
  async (t) => {
    const chain = scriptedChain()
    chain.mined.set(hashOf(99), { block: 4_900, nonces: [nonceOf(0), nonceOf(1)] })
    for (const odd of [null, {}, { transactionHash: hashOf(99), topics: [1] }]) {
      chain.refuse(({ method, params: [filter] }) =>
        method === 'eth_getLogs' && JSON.stringify(filter).includes(nonceOf(0))
          ? { ok: true, result: [odd] }
          : undefined,
      )
      t.match(await chain.recover([paymentOf(0), paymentOf(1)]), [
        { status: 'pending', reason: 'settlement_pending' },
        { status: 'settled' },
      ])
    }
  },
)

t.test('what its payer has taken back is over once that is as deep as a payment has to be', async (t) => {
  const chain = scriptedChain({ confirmations: 3 })
  chain.mined.set(hashOf(50), { block: 4_999, nonces: [nonceOf(0)], cancelled: true })
  t.match(await chain.recover([paymentOf(0)]), [{ status: 'pending', reason: 'settlement_pending' }])
  t.equal(chain.byMethod.get('eth_sendRawTransaction'), undefined, 'there is nothing to be sent')
  chain.head.number = 5_001
  t.match(await chain.recover([paymentOf(0)]), [
    { status: 'failed_final', reason: 'invalid_exact_evm_nonce_already_used' },
  ])
})

t.test('what the node refuses for many together is asked for one by one', async (t) => {
  const chain = scriptedChain()
  const open = payments(5)
  chain.mined.set(hashOf(99), { block: 4_900, nonces: open.map(({ nonce }) => nonce) })
  chain.refuse(({ method, params }) => {
    const nonces = (params[0] as { topics?: string[][] }).topics?.[2] ?? []
    // One of them the node can't search for at all.
    return method === 'eth_getLogs' && (nonces.length > 1 || nonces[0] === nonceOf(3)) ? tooMuch : undefined
  })
  const outcomes = await chain.recover(open)
  t.same(
    outcomes.map(({ status }) => status),
    ['settled', 'settled', 'settled', 'pending', 'settled'],
  )
})

t.test(
  'an outcome never hangs on a neighbour: spoiled rows and faults of the node are each one’s own',
  async (t) => {
    const chain = scriptedChain()
    const spoiled = [
      paymentOf(1, { nonce: 'nonsense' }),
      paymentOf(2, { payer: '' }),
      paymentOf(3, { attempt: null }),
      paymentOf(4, { attempt: { settler: 'evm', bytes: '0x02', transaction: 'x', sequence: null } }),
      paymentOf(5, { validBeforeMs: Number.NaN }),
    ]
    chain.mined.set(hashOf(0), { block: 4_900, nonces: [nonceOf(0)] })
    chain.mined.set(hashOf(6), { block: 4_900, nonces: [nonceOf(6)] })
    chain.refuse(({ method, params }) =>
      params[0] === hashOf(6) ||
      (method === 'eth_call' && JSON.stringify(params).includes(nonceOf(6).slice(2)))
        ? nodeFault
        : undefined,
    )
    const outcomes = await chain.recover([paymentOf(0), ...spoiled, paymentOf(6)])
    t.match(outcomes[0], { status: 'settled' })
    for (const outcome of outcomes.slice(1)) t.match(outcome, { status: 'pending' })
  },
)

t.test(
  'a node that is away leaves everything pending, and says nothing of what left the chain',
  async (t) => {
    const chain = scriptedChain({ seconds: 9_000 })
    chain.away(true)
    t.match(await chain.recover(payments(2)), [{ status: 'pending' }, { status: 'pending' }])
    const settled = payments(2).map((one) => ({ ...one, transaction: one.attempt!.transaction, block: 1 }))
    t.same(await chain.stillOnChain(settled), ['unknown', 'unknown'])
  },
)

t.test('mined for nothing stays open, and is looked at rarely, until it expired with a margin', async (t) => {
  const chain = scriptedChain()
  chain.mined.set(hashOf(0), { block: 4_901, nonces: [], reverted: true })
  const open = { status: 'pending', reason: 'invalid_exact_evm_transaction_failed', recheckMs: 60_000 }
  t.match(await chain.recover([paymentOf(0)]), [open])
  chain.head.timestamp = 3_020
  t.match(await chain.recover([paymentOf(0)]), [{ ...open, recheckMs: 10_000 }], 'at its end it is told')
  chain.head.timestamp = 3_029
  t.match(await chain.recover([paymentOf(0)]), [{ ...open, recheckMs: 2_000 }])
  t.equal(
    chain.byMethod.get('eth_sendRawTransaction'),
    undefined,
    'nothing is sent: its account nonce is used',
  )
  chain.head.timestamp = 3_030
  t.match(await chain.recover([paymentOf(0)]), [
    { status: 'failed_final', reason: 'invalid_exact_evm_transaction_failed' },
  ])
})

t.test('what is too late is looked at again when its margin is over, and not sent any more', async (t) => {
  const chain = scriptedChain()
  for (const [timestamp, recheckMs] of [
    [3_000, 30_000],
    [3_018, 12_000],
    [3_029, 2_000],
  ] as const) {
    chain.head.timestamp = timestamp
    t.match(await chain.recover([paymentOf(0)]), [{ status: 'pending', recheckMs }])
  }
  t.equal(chain.byMethod.get('eth_sendRawTransaction'), undefined)
  chain.head.timestamp = 3_030
  t.match(await chain.recover([paymentOf(0)]), [{ status: 'failed_final' }])
})

t.test('a node that is not past the block of a payment is not asked for its absence', async (t) => {
  const chain = scriptedChain({ number: 5_000 })
  const at = (n: number, block: number | null) => paymentOf(n, { transaction: hashOf(n), block })
  chain.mined.set(hashOf(0), { block: 4_990, nonces: [nonceOf(0)] })
  t.same(await chain.stillOnChain([at(0, 4_990), at(1, 5_000), at(2, 5_001), at(3, 4_999), at(4, null)]), [
    'yes',
    'unknown',
    'unknown',
    'no',
    'no',
  ])
  // A second node, behind the first.
  chain.head.number = 4_995
  t.same(await chain.stillOnChain([at(3, 4_990), at(4, null)]), ['unknown', 'unknown'])
})

t.test(
  'a transfer in another transaction, or at another place of its block, is not where it was booked',
  async (t) => {
    const chain = scriptedChain()
    const booked = (event: string | null) =>
      paymentOf(0, { transaction: hashOf(0), block: 4_980, event: event as string })
    chain.mined.set(hashOf(0), { block: 4_990, nonces: [nonceOf(1), nonceOf(0)] })
    t.same(await chain.stillOnChain([booked('2'), booked('0'), booked(null)]), ['yes', 'no', 'yes'])
    chain.mined.clear()
    chain.mined.set(hashOf(70), { block: 4_990, nonces: [nonceOf(0)] })
    t.same(await chain.stillOnChain([booked('0')]), ['no'])
    t.match(await chain.recover([booked('0')]), [{ status: 'settled', transaction: hashOf(70), event: '0' }])
  },
)

t.test(
  'what was never sent is free once its account number is used deep enough, and not before',
  async (t) => {
    const chain = scriptedChain({ confirmations: 3 })
    const unsent = (n: number, changes: Partial<PaymentRecord> = {}) => {
      const record = paymentOf(n, changes)
      return { ...record, attempt: { ...record.attempt!, bytes: '' } }
    }
    const statuses = async (...records: PaymentRecord[]) =>
      (await chain.recover(records)).map(({ status }) => status)
    t.strictSame(await statuses(unsent(7)), ['pending'])
    t.strictSame(chain.abandoned, ['7'], 'and something else has to use it')

    // In the newest block, with two more to come.
    chain.use((_, block) => (block >= 5_000 ? 8 : 7))
    t.strictSame(await statuses(unsent(7)), ['pending'])
    chain.use((_, block) => (block >= 4_998 ? 8 : 7))
    t.strictSame(await statuses(unsent(7), unsent(8), paymentOf(6)), ['rejected', 'pending', 'pending'])
    t.match(await chain.recover([unsent(7)]), [{ reason: 'settlement_never_sent' }])
    t.strictSame(chain.byMethod.get('eth_sendRawTransaction'), 1, 'that of the one with bytes')

    const over = { validBeforeMs: 2_000_000 }
    t.strictSame(await statuses(unsent(7, over)), ['failed_final'], 'what is over is over')
    chain.mined.set(hashOf(7), { block: 4_990, nonces: [nonceOf(7)] })
    t.strictSame(await statuses(unsent(7)), ['settled'], 'what was sent after all counts')
    chain.mined.set(hashOf(7), { block: 4_990, nonces: [nonceOf(7)], reverted: true })
    t.strictSame(await statuses(unsent(7)), ['pending'], 'and failed on its way')
    chain.mined.delete(hashOf(7))
    chain.mined.set(hashOf(99), { block: 4_990, nonces: [nonceOf(7)] })
    t.strictSame(await statuses(unsent(7)), ['settled'], 'as does what somebody else brought')

    chain.mined.clear()
    chain.refuse(({ method }) => (method === 'eth_getTransactionCount' ? nodeFault : undefined))
    t.strictSame(await statuses(unsent(7)), ['pending'], 'a node that does not say frees nothing')
    chain.refuse(({ method }) =>
      method === 'eth_getTransactionCount' ? { ok: true, result: '0xffffffffffffffffff' } : undefined,
    )
    t.strictSame(await statuses(unsent(7)), ['pending'], 'nor one that says nonsense')
    const unknown: LooseResponse = { ok: false, error: new RpcUnreachable('away') }
    chain.refuse(({ method }) => (method === 'eth_call' ? unknown : undefined))
    t.strictSame(await statuses(unsent(7)), ['pending'], 'nor while it is not known whether it is used')
  },
)
