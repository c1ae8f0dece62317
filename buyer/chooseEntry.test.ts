import { Keypair } from '@solana/web3.js'
import fc from 'fast-check'
import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { builtInAssets } from '../core/domain/asset.ts'
import { chooseEntry } from '../core/x402/offerTerms.ts'
import { createEvmBuyer } from './chains/evmBuyer.ts'
import { createSolanaBuyer } from './chains/solanaBuyer.ts'

const evm = createEvmBuyer({ privateKey: generatePrivateKey() })
const solana = createSolanaBuyer({ secret: Keypair.generate().secretKey })
const evmPayee = privateKeyToAccount(generatePrivateKey()).address
const solanaPayee = Keypair.generate().publicKey.toBase58()
const feePayer = Keypair.generate().publicKey.toBase58()

const nasty = fc.constantFrom<unknown>(
  ...[
    undefined,
    null,
    true,
    0,
    1,
    -1,
    1.5,
    1e308,
    '',
    '0',
    '1',
    '-1',
    '1e9',
    '0x1',
    '01',
    ' 1',
    '1\n',
    [],
    {},
  ],
  ...[
    ['1'],
    { toString: '1' },
    '__proto__',
    'constructor',
    'exact',
    'EXACT',
    'upto',
    'permit2',
    evm.address,
    solana.address,
  ],
  ...[evmPayee, evmPayee.toLowerCase(), evmPayee.toUpperCase(), solanaPayee, feePayer, `0x${'0'.repeat(40)}`],
  ...builtInAssets.flatMap((asset) => [asset.address, asset.address.toLowerCase(), asset.network]),
)
const good = fc.constantFrom(
  ...builtInAssets.map((asset) => ({
    scheme: 'exact',
    network: asset.network,
    amount: '10000',
    asset: asset.address,
    payTo: asset.eip712 ? evmPayee : solanaPayee,
    maxTimeoutSeconds: 300,
    extra: asset.eip712 ? { ...asset.eip712 } : { feePayer },
  })),
)
const fields = ['scheme', 'network', 'amount', 'asset', 'payTo', 'maxTimeoutSeconds', 'extra'] as const
const extras = fc.dictionary(
  fc.constantFrom(
    'name',
    'version',
    'decimals',
    'feePayer',
    'memo',
    'assetTransferMethod',
    'facilitatorAddress',
    'permit',
    'spender',
  ),
  nasty,
  { maxKeys: 3 },
)

/** An honest entry in which some fields, also of `extra`, are replaced. */
const entry = fc
  .tuple(good, fc.dictionary(fc.constantFrom(...fields), nasty, { maxKeys: 2 }), extras)
  .map(([base, changes, extra]) => ({ ...base, extra: { ...base.extra, ...extra }, ...changes }))

t.test('whatever a seller writes, only a payment that was understood is chosen', async (t) => {
  let chosenCount = 0
  fc.assert(
    fc.property(fc.array(entry, { minLength: 1, maxLength: 3 }), (accepts) => {
      const choice = chooseEntry(accepts, { eip155: evm, solana })
      if (!choice.ok) return choice.message.length > 0
      chosenCount++
      const { terms, entry: taken, buyer } = choice.chosen
      const { asset, payTo, maxTimeoutSeconds, amountAtomic } = terms
      const isEvm = asset.eip712 !== undefined
      return (
        accepts.includes(taken as (typeof accepts)[number]) &&
        taken['scheme'] === terms.scheme &&
        (terms.scheme === 'exact' || /^0x/.test(terms.permit2?.facilitator ?? '')) &&
        taken['network'] === asset.network &&
        builtInAssets.includes(asset) &&
        taken['amount'] === amountAtomic.toString() &&
        amountAtomic > 0n &&
        taken['payTo'] === payTo &&
        (isEvm
          ? payTo.toLowerCase() === evmPayee.toLowerCase()
          : /^[1-9A-HJ-NP-Za-km-z]{32,44}$/.test(payTo)) &&
        ![evm.address, solana.address, ...builtInAssets.map((known) => known.address)].includes(payTo) &&
        buyer === (isEvm ? evm : solana) &&
        Number.isInteger(maxTimeoutSeconds) &&
        (!isEvm ||
          terms.permit2 !== undefined ||
          (terms.extra['name'] === asset.eip712?.name && terms.extra['version'] === '2')) &&
        (isEvm || (terms.extra['feePayer'] !== solana.address && typeof terms.extra['feePayer'] === 'string'))
      )
    }),
    { numRuns: 5_000 },
  )
  t.ok(chosenCount > 100, `${chosenCount} of the offers were acceptable`)
})

t.test('a key of the prototype is no term', async (t) => {
  const [base] = builtInAssets.filter((asset) => asset.network === 'eip155:84532')
  const terms = {
    scheme: 'exact',
    network: base!.network,
    amount: '10000',
    asset: base!.address,
    payTo: evmPayee,
    maxTimeoutSeconds: 300,
    extra: { ...base!.eip712 },
  }
  t.equal(chooseEntry([terms], { eip155: evm }).ok, true)
  t.equal(chooseEntry([Object.create(terms)], { eip155: evm }).ok, false)
  t.equal(chooseEntry([{ ...terms, extra: Object.create(terms.extra) }], { eip155: evm }).ok, false)
})

const entryOn = (network: string): Record<string, unknown> => {
  const asset = builtInAssets.find((known) => known.network === network)!
  const isEvm = asset.eip712 !== undefined
  return {
    scheme: 'exact',
    network,
    amount: '10000',
    asset: asset.address,
    payTo: isEvm ? evmPayee : solanaPayee,
    maxTimeoutSeconds: 300,
    extra: isEvm ? { ...asset.eip712 } : { feePayer },
  }
}
const onBase = entryOn('eip155:84532')
const onDevnet = entryOn('solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1')
const both = { eip155: evm, solana }
const atMost = (most: bigint) => ({
  fits: ({ amountAtomic }: { amountAtomic: bigint }) => amountAtomic <= most,
})
const chosenOf = (accepts: Record<string, unknown>[], most = 10_000n) => {
  const choice = chooseEntry(accepts, both, atMost(most))
  return choice.ok ? accepts.indexOf(choice.chosen.entry as Record<string, unknown>) : choice.message
}

t.test(
  'a dearer entry is passed over for the first that fits; among too dear ones the cheapest is taken',
  async (t) => {
    const dear = { ...onBase, amount: '5000000' }
    const dearest = { ...onBase, amount: '9000000' }
    t.equal(chosenOf([dear, onBase, onDevnet]), 1)
    t.equal(chosenOf([dear, onDevnet, onBase]), 1)
    t.equal(chosenOf([dearest, dear, dearest]), 1)
    const choice = chooseEntry([dear, onDevnet, onBase, dear], both, atMost(10_000n))
    t.strictSame(choice.ok && choice.others.map(({ entry }) => entry), [onBase])
    t.match(chosenOf([dear, { ...onBase, payTo: evm.address }, onBase]), /entry 2 is not acceptable/)
    t.equal(chosenOf([{ ...onBase, amount: 'all' }, { ...onBase, extra: null }, onBase]), 2, 'not understood')
    t.equal(
      chosenOf([onBase, { ...onBase, payTo: evm.address }]),
      0,
      'what must not be signed behind a good one is not signed',
    )
  },
)

t.test(
  'an entry whose extra moves money in another way is not paid; other words in extra are ignored',
  async (t) => {
    const withExtra = (extra: object, base = onBase) => ({
      ...base,
      extra: { ...(base['extra'] as object), ...extra },
    })
    for (const paymentFlow of ['escrow', 'Upfront', 'commit', '', 0, true, {}, ['upfront'], 'constructor']) {
      const entries = [withExtra({ paymentFlow }), withExtra({ paymentFlow }, onDevnet)]
      t.match(chosenOf(entries), /1: the payment flow is not known; 2: the payment flow/, String(paymentFlow))
      t.equal(chosenOf([...entries, onBase]), 2)
    }
    for (const assetTransferMethod of ['erc7710', 'Permit2', '', 0, {}])
      t.match(chosenOf([withExtra({ assetTransferMethod })]), /transfer method is not known/)
    for (const extra of [
      { paymentFlow: 'authorization' },
      { paymentFlow: 'upfront' },
      { paymentFlow: null, assetTransferMethod: null },
      { assetTransferMethod: 'eip3009' },
      { permit: true, spender: '0x1', approve: 'max', name: 'USDC' },
      { recentBlockhash: 'x', features: { a: [1] }, policy: 'p', note: '' },
    ])
      t.equal(chosenOf([withExtra(extra)]), 0, JSON.stringify(extra))
  },
)

t.test('an entry by Permit2 is paid, and one of scheme upto only if it names who may charge', async (t) => {
  const facilitatorAddress = evmPayee
  const upto = { ...onBase, scheme: 'upto', extra: { ...(onBase['extra'] as object), facilitatorAddress } }
  const termsOf = (entry: object) => {
    const choice = chooseEntry([{ ...entry }], both)
    return choice.ok ? choice.chosen.terms : choice.message
  }
  t.match(termsOf(upto), { scheme: 'upto', amountAtomic: 10_000n, permit2: { facilitator: evmPayee } })
  t.match(termsOf({ ...upto, extra: { facilitatorAddress: evmPayee.toLowerCase() } }), {
    permit2: { facilitator: evmPayee },
  })
  t.match(termsOf({ ...onBase, extra: { assetTransferMethod: 'permit2', facilitatorAddress } }), {
    scheme: 'exact',
    permit2: { facilitator: null },
  })
  t.equal((termsOf(onBase) as { permit2?: object }).permit2, undefined)
  const wrongSum = evmPayee.replace(/[a-f]/, (letter) => letter.toUpperCase())
  for (const named of [undefined, null, '', '0x', 'seller.eth', 7, [evmPayee], wrongSum, `${evmPayee}00`])
    t.match(
      termsOf({ ...upto, extra: { facilitatorAddress: named } }),
      /facilitatorAddress is not a 0x address/,
      String(named),
    )
  t.match(termsOf({ ...upto, extra: Object.create({ facilitatorAddress }) }), /facilitatorAddress/)
  t.match(termsOf({ ...upto, extra: { facilitatorAddress, assetTransferMethod: 'eip3009' } }), /method/)
  t.match(termsOf({ ...onDevnet, scheme: 'upto' }), /scheme upto is not known on Solana Devnet/)
  t.match(termsOf({ ...upto, scheme: 'batch-settlement' }), /scheme is not exact or upto/)
  t.match(termsOf({ ...upto, payTo: evm.address }), /your own wallet/)
  t.equal(chosenOf([upto, onBase]), 0, "the seller's order counts")
  t.equal(chosenOf([onBase, upto]), 0)
  t.equal(chosenOf([{ ...upto, amount: '10001' }, onBase]), 1, 'the most is what counts for the cap')
})
