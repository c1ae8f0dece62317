import { existsSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import t from 'tap'
import { canonicalAddress } from '../../core/domain/address.ts'
import { visibleLines, visibleText } from '../../core/text/visibleText.ts'
import {
  type AddedChain,
  createAssetTable,
  createChainTable,
  PinProblem,
  pinnedAssets,
  pinnedChains,
} from './assets.ts'
import { finish, nameRecipients, showText } from './plainWords.ts'
import { claimedAmount, proveClaim } from './proveClaim.ts'

t.test('an amount is read exactly or not at all', async (t) => {
  const good: [unknown, number, bigint][] = [
    [1, 6, 1_000_000n],
    [0.1, 6, 100_000n],
    ['0.000001', 6, 1n],
    ['1.50', 6, 1_500_000n],
    [0, 18, 0n],
    [1e-7, 18, 10n ** 11n],
    [5e-9, 9, 5n],
    [1.5e-7, 18, 15n * 10n ** 10n],
    [1.23456789012345e-3, 18, 1_234_567_890_123_450n],
    [1e-18, 18, 1n],
    ['1.0000000', 6, 1_000_000n],
    ['123456789012345678.123456789012345678', 18, 123456789012345678123456789012345678n],
  ]
  for (const [amount, decimals, atomic] of good)
    t.strictSame(claimedAmount(amount, decimals), { ok: true, atomic }, String(amount))
  for (const bad of [
    '0.0000001',
    0.0000001,
    1e-18,
    5e-324,
    '1e-7',
    1e21,
    '1e3',
    '+1',
    '-1',
    -1,
    -0,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    '',
    ' 1',
    '1.',
    '.5',
    '01',
    '1,5',
    '0x10',
    '١',
    0.1 + 0.2,
    Number('9007199254740993'),
    1n,
    true,
    null,
    undefined,
    ['1'],
    { toString: () => '1' },
  ]) {
    t.match(claimedAmount(bad, 6), { ok: false, message: /Expected/ }, String(bad))
  }
  t.match(claimedAmount(1.234567890123456e-7, 18 + 4), { ok: false, message: /15 digits/ }, 'sixteen')
  fc.assert(
    fc.property(fc.anything(), fc.integer({ min: 0, max: 18 }), (amount, decimals) => {
      const read = claimedAmount(amount, decimals)
      return read.ok ? read.atomic >= 0n : read.message !== ''
    }),
  )
  fc.assert(
    fc.property(fc.bigInt(0n, 10n ** 14n), (atomic) => {
      const text = atomic
        .toString()
        .padStart(7, '0')
        .replace(/(\d{6})$/, '.$1')
      const read = claimedAmount(text, 6)
      const asNumber = claimedAmount(Number(text), 6)
      // The same digits as a number with nine decimals, most of which JavaScript writes with an exponent.
      const small = Number(`${atomic % 10n ** 9n}e-15`)
      const tiny = claimedAmount(small, 15)
      if (tiny.ok && tiny.atomic !== atomic % 10n ** 9n) return false
      // A number is either the same amount or refused, never another amount.
      return read.ok && read.atomic === atomic && (!asNumber.ok || asNumber.atomic === atomic)
    }),
  )
})

t.test('the pinned assets are spelled canonically, and no addition takes the place of one', async (t) => {
  for (const chain of pinnedChains.all) {
    for (const asset of pinnedAssets.tokensOf(chain.name))
      t.equal(canonicalAddress(chain.family, asset.address), asset.address, asset.id)
    t.equal(pinnedChains.named(chain.name), chain)
  }
  const usdc = pinnedAssets.bySymbol('base', 'USDC')!
  t.equal(usdc.id, 'eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913')
  t.equal(pinnedAssets.native('solana').id, 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/slip44:501')
  t.equal(pinnedAssets.byAddress('base', usdc.address.toLowerCase()), usdc)
  t.equal(pinnedAssets.bySymbol('base', 'usdc'), undefined, 'symbols are exact')
  t.equal(pinnedChains.named('constructor'), undefined)
  t.throws(() => pinnedChains.of('constructor'), RangeError)
  const added = { chain: 'base', address: `0x${'11'.repeat(20)}`, symbol: 'TOLL', decimals: 18 } as const
  t.match(createAssetTable([added]).bySymbol('base', 'TOLL'), { decimals: 18, isPinned: true })
  for (const change of [
    { symbol: 'USDC' },
    { symbol: 'ETH' },
    { address: usdc.address.toLowerCase() },
    { decimals: 19 },
    { symbol: 'U\u200bSDC' },
    { symbol: 'USD\u0421' },
    { symbol: 'usdc' },
    { symbol: 'U.SDC' },
    { symbol: 'U5DC' },
    { symbol: 'eth' },
    { address: usdc.address },
    { address: '0x52908400098527886E0F7030069857D2E4169EE8'.toLowerCase() },
    { chain: 'toString' },
    { program: 'token' as const },
  ]) {
    t.throws(() => createAssetTable([{ ...added, ...change }]), PinProblem)
  }
})

const mine: AddedChain = {
  name: 'mine',
  family: 'eip155',
  network: 'eip155:31337',
  title: 'My chain',
  native: { symbol: 'COIN', decimals: 18 },
  isTest: true,
  maxFee: 10n,
  usualFee: 1n,
}
const ownCluster: AddedChain = {
  ...mine,
  name: 'own-cluster',
  title: 'My cluster',
  family: 'solana',
  network: `solana:${'1'.repeat(32)}`,
}

t.test('a chain of the owner stands beside the pinned ones, and takes the place of none', async (t) => {
  const chains = createChainTable([mine, ownCluster])
  t.match(chains.ofNetwork('eip155:31337'), { name: 'mine', chainId: 31_337n })
  t.equal(chains.of('own-cluster').chainId, undefined)
  t.equal(pinnedChains.named('mine'), undefined, 'one table knows nothing of another')
  const token = { chain: 'mine', address: `0x${'11'.repeat(20)}`, symbol: 'USDC', decimals: 18 }
  const assets = createAssetTable([token], chains)
  t.match(assets.native('mine'), { id: 'eip155:31337/slip44:60', symbol: 'COIN' })
  t.match(assets.bySymbol('mine', 'USDC'), { decimals: 18, chain: 'mine' })
  t.throws(() => createAssetTable([token]), { message: /one of ethereum, base/ })
  for (const change of [
    { name: 'base' },
    { name: 'Base' },
    { name: '' },
    { name: 'mine-' },
    { network: 'eip155:9007199254740992' as const },
    { name: 'so1ana' },
    { name: 'b\u0430se' },
    { title: 'Ethereum' },
    { title: 'ETHEREUM' },
    { title: 'S0lana Devnet' },
    { title: 'B\u0430se' },
    { title: '' },
    { network: 'eip155:1' as const },
    { network: 'eip155:84532' as const },
    { network: 'eip155:01' as const },
    { network: `solana:${'1'.repeat(32)}` as const },
    { native: { symbol: 'C OIN', decimals: 18 } },
    { native: { symbol: 'COIN', decimals: 19 } },
    { usualFee: 11n },
    { usualFee: -1n },
    { ...ownCluster, isTest: false },
  ]) {
    t.throws(
      () => createChainTable([{ ...mine, ...change }]),
      PinProblem,
      JSON.stringify(Object.values(change).map(String)),
    )
  }
  t.throws(() => createChainTable([mine, { ...mine, name: 'other', title: 'Other' }]), /which is mine/)
})

t.test('addresses have one spelling', async (t) => {
  const checksummed = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'
  t.equal(canonicalAddress('eip155', checksummed.toLowerCase()), checksummed)
  t.equal(canonicalAddress('eip155', checksummed.replace('fCD', 'FCD')), undefined, 'a false checksum')
  t.equal(canonicalAddress('eip155', `${checksummed}00`), undefined)
  t.equal(canonicalAddress('solana', checksummed), undefined)
  t.equal(canonicalAddress('solana', '1'.repeat(32)), '1'.repeat(32))
  t.equal(canonicalAddress('solana', '1'.repeat(33)), undefined)
  t.equal(canonicalAddress('eip155', undefined), undefined)
})

t.test('text of others shows everything that it holds, and nothing moves', async (t) => {
  t.equal(showText('a\u202eb\n\u200b'), '“a\\u{202e}b\\u{a}\\u{200b}”')
  t.equal(showText('x'.repeat(600)).length, 503)
  t.equal(
    showText('שלום 500'),
    '“\\u{5e9}\\u{5dc}\\u{5d5}\\u{5dd} 500”',
    'no letter that turns the sentence around',
  )
  t.equal(
    visibleLines('שלום\r\n\ta\u2066'),
    'שלום\\u000d\n\\u0009a\\u2066',
    'a block of its own keeps its script',
  )
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }),
      (text) => !/[\p{C}\p{Z}]/u.test(showText(text).replaceAll(' ', '')),
    ),
  )
})

const naughty = new URL('../../../shared/corpora/blns.json', import.meta.url)
t.test('naughty strings', { skip: !existsSync(naughty) && 'the corpus is not here' }, async (t) => {
  const strings = JSON.parse(readFileSync(naughty, 'utf8')) as string[]
  t.ok(strings.length > 400)
  const acts = /[\p{C}\u2800]|(?! )\p{Z}|\p{Default_Ignorable_Code_Point}|\p{M}{4}|^\p{M}/u
  t.strictSame(
    strings.filter((text) =>
      visibleLines(text)
        .split('\n')
        .some((line) => acts.test(line)),
    ),
    [],
  )
  t.strictSame(
    strings.filter((text) => acts.test(visibleText(text)) || acts.test(showText(text))),
    [],
  )
  const sameJson = (text: string) => JSON.parse(visibleLines(JSON.stringify({ text }, null, 2))).text === text
  t.ok(strings.every(sameJson))
})

t.test('a wallet is named where its token account is proved, and bytes stay', async (t) => {
  const chain = 'solana'
  const asset = pinnedAssets.bySymbol(chain, 'USDC')!
  const wallet = '4Nd1mYvM4qk4mbyWs6eWc2a8Y4nXyWcK9mW2Wn3qKcZp'
  const draft = (to: string) =>
    finish(pinnedAssets, {
      kind: 'transaction',
      chain,
      from: '1'.repeat(32),
      effects: [{ kind: 'transfer', asset, amount: 1n, from: '1'.repeat(32), to, via: 'transferChecked' }],
      fee: { amount: 0n, asset: pinnedAssets.native(chain), payer: '1'.repeat(32) },
      warnings: [],
      frozenBytes: Uint8Array.of(1, 2),
      signingBytes: Uint8Array.of(3),
      signKind: 'solana-transaction',
      encoding: 'base64',
    })
  const stranger = draft(asset.address)
  t.equal(nameRecipients(stranger, [wallet, 'nonsense', '0x']), stranger, 'nothing is proved')
  t.ok(Object.isFrozen(stranger) && Object.isFrozen(stranger.effects) && Object.isFrozen(stranger.effects[0]))
  t.match(proveClaim({ chain, amount: '0.000001', currency: 'USDC', recipient: 'nonsense' }, stranger), {
    ok: false,
  })
  t.match(proveClaim({ chain, amount: '0.000001', currency: 'XYZ' }, stranger), { code: 'VALIDATION_ERROR' })
  t.match(proveClaim({ chain, amount: '0.000001', currency: null }, stranger), { code: 'VALIDATION_ERROR' })
  t.match(proveClaim({ chain: 'toString', amount: 0 }, stranger), { code: 'CHAIN_MISMATCH' })
})
