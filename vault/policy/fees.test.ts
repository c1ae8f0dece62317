import fc from 'fast-check'
import t from 'tap'
import { formatAmount } from '../../core/domain/money.ts'
import { decoded, effect, eth, judge, payee, policy, send, usdc } from '../../test/helpers/vault/policy.ts'
import { createAssetTable, pinnedAssets, pinnedChains, type VaultChain } from '../effects/assets.ts'
import { budgetSpends, type Decoded, type Effect, feesId, spendOf } from '../effects/effect.ts'
import { budgetLimits, feeLimitsOf, type Policy } from './policy.ts'

t.test(
  'what is unusually large is asked for: networks may charge for its bytes beside the fee',
  async (t) => {
    const sized = (bytes: number, more: Partial<Decoded> = {}) =>
      judge({ ...decoded([send(1_000_000n)]), frozenBytes: new Uint8Array(bytes), ...more })
    t.equal(sized(2_048).decision, 'auto')
    t.match(sized(2_049), { decision: 'ask', reasons: [/2049 bytes/] })
    t.equal(sized(9_999, { signKind: 'evm-typed-data' }).decision, 'auto', 'typed data is not sent')
  },
)

t.test('fees have limits of their own, which follow from what may be spent', async (t) => {
  const usual = 10n ** 14n
  const spentOnFees = (amount: bigint): [string, bigint][] => [[feesId(eth), amount]]
  t.match(judge(decoded([send(1n)], usual)), { decision: 'auto' })
  t.match(judge(decoded([send(1n)], usual + 1n)), { decision: 'ask' })
  t.match(judge(decoded([send(1n)], 4n * usual)), { decision: 'ask' }, '20 a day are 4 payments of 5')
  t.match(judge(decoded([send(1n)], 4n * usual + 1n)), { decision: 'deny', code: 'FEE_EXCESSIVE' })
  t.match(judge(decoded([send(1n)], usual), {}, spentOnFees(3n * usual)), { decision: 'auto' })
  t.match(judge(decoded([send(1n)], usual), {}, spentOnFees(3n * usual + 1n)), {
    code: 'BUDGET_EXCEEDED_DAILY',
  })
  const fees = [{ chain: 'base' as const, perTransaction: '0.00001', autoApproveUpTo: '0' }]
  t.match(judge(decoded([send(1n)], 1n), { fees }), { decision: 'ask' })
  t.match(judge(decoded([send(1n)], usual), { fees }), { decision: 'deny', code: 'FEE_EXCESSIVE' })
})

t.test('a chain that no rule names has no room for fees', async (t) => {
  const opaque: Effect = { kind: 'opaque', target: payee, reason: 'calls something' }
  const assets = [{ ...policy.assets[0]!, chain: 'ethereum' as const }]
  t.match(judge(decoded([opaque], 1n), { assets }), { decision: 'deny', code: 'SCOPE_DENIED' })
  t.match(judge(decoded([], 1n), { assets: [] }), { decision: 'deny', code: 'SCOPE_DENIED' })
  const none = [{ ...policy.assets[0]!, perTransaction: '0', autoApproveUpTo: '0' }]
  t.match(judge(decoded([opaque], 1n), { assets: none }), { code: 'SCOPE_DENIED' }, 'a rule for nothing')
  t.match(judge(decoded([opaque], 1n), { assets, fees: [{ chain: 'base' }] }), { decision: 'ask' })
  const limits = budgetLimits(policy, 'a', pinnedAssets)
  t.strictSame(
    limits.map(({ asset }) => asset).sort(),
    [usdc.id, eth.id, feesId(eth)].sort(),
    'the budget book has limits for the chains of the rules only, and what has none is refused before',
  )
})

t.test(
  'what fees leave open follows from the rest of the rule, and rent from the program of the token',
  async (t) => {
    const [rule] = policy.assets
    const usual = 10n ** 14n
    const of = (fees: object, assets: Policy['assets'] = [rule!]) => {
      const limits = feeLimitsOf(
        { ...policy, assets, fees: [{ chain: 'base', ...fees }] },
        'base',
        pinnedAssets,
      )!
      return [limits.autoApproveUpTo, limits.perTransaction, limits.perDay].map((amount) =>
        Number(amount / (usual / 10n)),
      )
    }
    t.strictSame(of({}), [10, 40, 40])
    t.strictSame(of({}, []), [10, 10, 10], 'fees for a chain without an asset')
    t.strictSame(of({ perTransaction: '0.00005' }), [5, 5, 20])
    t.strictSame(of({ perDay: '1' }), [10, 200, 100_000], 'the pinned bound of one')
    t.strictSame(of({ autoApproveUpTo: '0.001' }), [100, 200, 400])
    t.strictSame(of({}, [rule!, { ...rule!, symbol: 'USDT', perDay: '1000' }]), [10, 100, 100], 'ten at most')

    const big = {
      chain: 'solana',
      symbol: 'BIG',
      address: 'So11111111111111111111111111111111111111112',
      decimals: 6,
    }
    const table = createAssetTable([{ ...big, program: 'token-2022' }])
    const once = { ...rule!, chain: 'solana', perDay: '5' }
    const ofSolana = (symbol: string) =>
      feeLimitsOf({ ...policy, assets: [{ ...once, symbol }] }, 'solana', table)
    t.match(ofSolana('USDC'), { perDay: 200_000n + 2_039_280n, autoApproveUpTo: 200_000n })
    t.match(ofSolana('BIG'), { perDay: 200_000n + 4_900_000n, autoApproveUpTo: 200_000n })
    t.match(ofSolana('SOL'), { perDay: 200_000n })
  },
)

t.test('five dollars a day are no hundredth of an ether in fees, however they are divided', async () => {
  const text = (units: bigint) => formatAmount(units, 6)
  fc.assert(
    fc.property(
      fc.constantFrom<VaultChain>('ethereum', 'base', 'base-sepolia', 'solana', 'solana-devnet'),
      fc.bigInt(1n, 5_000_000n),
      fc.bigInt(0n, 5_000_000n),
      (chain, perTransaction, auto) => {
        const rule = {
          chain,
          symbol: 'USDC',
          perTransaction: text(perTransaction),
          perDay: '5',
          autoApproveUpTo: text(auto % (perTransaction + 1n)),
        }
        const limits = feeLimitsOf({ ...policy, assets: [rule] }, chain, pinnedAssets)!
        const { usualFee, maxFee } = pinnedChains.of(chain)
        const isOrdered =
          limits.autoApproveUpTo <= limits.perTransaction && limits.perTransaction <= limits.perDay
        const most = chain.startsWith('solana') ? 25_000_000n : 10n ** 16n
        return (
          isOrdered && limits.perDay >= usualFee && limits.perDay <= most && limits.perTransaction <= maxFee
        )
      },
    ),
  )
})

t.test('what is sent of the native asset and its fee come out of one purse', async (t) => {
  const assets = [
    {
      chain: 'base',
      symbol: 'ETH',
      perTransaction: '0.01',
      perDay: '0.01',
      autoApproveUpTo: '0.01',
    } as const,
  ]
  const hundredth = 10n ** 16n
  t.match(judge(decoded([send(hundredth - 5n, eth)], 5n), { assets }), { decision: 'auto' })
  t.match(judge(decoded([send(hundredth - 5n, eth)], 6n), { assets }), { code: 'BUDGET_EXCEEDED_DAILY' })
  const nativeDay = (rules: Policy['assets']) =>
    budgetLimits(
      { ...policy, assets: rules, fees: [{ chain: 'base', perDay: '1' }] },
      'a',
      pinnedAssets,
    ).find(({ asset }) => asset === eth.id)?.perDay
  t.equal(nativeDay(assets), hundredth, 'however many ask at once, and whatever room there is for fees')
  t.equal(nativeDay(policy.assets), 100n * hundredth, 'without a rule of its own it holds the fees only')
})

t.test(
  'however an agent divides a day, rules approve no more of fees than the day has room for',
  async (t) => {
    const requests = fc.array(
      fc.tuple(fc.array(effect, { minLength: 1, maxLength: 2 }), fc.bigInt(0n, 10n ** 14n)),
      { minLength: 30, maxLength: 60 },
    )
    const room = feeLimitsOf(policy, 'base', pinnedAssets)!.perDay
    let most = 0n
    fc.assert(
      fc.property(requests, (asked) => {
        const spent = new Map<string, bigint>()
        for (const [effects, fee] of asked) {
          // Includes a transfer each time, so that many are approved.
          const tx = decoded([...effects, send(1n)], fee)
          if (judge(tx, { allowances: 'auto', messages: 'auto' }, [...spent]).decision !== 'auto') continue
          for (const { asset, amount } of budgetSpends(tx))
            spent.set(asset, (spent.get(asset) ?? 0n) + amount)
        }
        const paid = spent.get(feesId(eth)) ?? 0n
        if (paid > most) most = paid
        return paid <= room && (spent.get(eth.id) ?? 0n) <= room && (spent.get(usdc.id) ?? 0n) <= 20_000_000n
      }),
      { numRuns: 300 },
    )
    t.ok(most > room / 2n, `at most ${most} of ${room}`)
  },
)

t.test('what the budget book is given adds up to what can be lost', async () => {
  fc.assert(
    fc.property(fc.array(effect, { maxLength: 5 }), fc.bigInt(0n, 10n ** 16n), (effects, fee) => {
      const tx = decoded(effects, fee)
      const rollups = new Map<string, bigint>()
      for (const spend of budgetSpends(tx))
        rollups.set(spend.asset, (rollups.get(spend.asset) ?? 0n) + spend.amount)
      const spent = spendOf(tx)
      const movedOf = (id: string) => spent.moved.get(id)?.amount ?? 0n
      rollups.set(eth.id, (rollups.get(eth.id) ?? 0n) - spent.fee)
      rollups.set(feesId(eth), (rollups.get(feesId(eth)) ?? 0n) - spent.fee + movedOf(feesId(eth)))
      return (
        [...rollups].every(([id, sum]) => movedOf(id) === sum) &&
        [...spent.moved.keys()].every((id) => rollups.has(id))
      )
    }),
  )
})
