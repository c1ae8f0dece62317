import t from 'tap'
import { RpcUnreachable } from '../../../../core/rpc/post.ts'
import { tokenProgramAddress } from '../../../../core/solana/addresses.ts'
import { dollar2022, usdc } from '../../../../test/helpers/chains/solana/payments.ts'
import type { Rpc } from '../rpc/nodes.ts'
import { createMintFacts, mintFault } from './mintFacts.ts'

/** A mint account: 82 bytes, and with extensions the padding, the account's kind and the list. */
function mint(extensions: [type: number, value: Uint8Array][] = [], decimals = 6) {
  const base = Buffer.alloc(82)
  base[44] = decimals
  base[45] = 1
  const list = extensions.map(([type, value]) => {
    const head = Buffer.alloc(4)
    head.writeUInt16LE(type, 0)
    head.writeUInt16LE(value.length, 2)
    return Buffer.concat([head, value])
  })
  const data = extensions.length === 0 ? base : Buffer.concat([base, Buffer.alloc(83), Buffer.of(1), ...list])
  return { owner: tokenProgramAddress['token-2022'], data: [data.toString('base64'), 'base64'] as const }
}

/** TransferFeeConfig: two keys, what was withheld, then the current fee and the next one. */
function feeConfig(current: number, next: number): Uint8Array {
  const value = Buffer.alloc(108)
  value.writeUInt16LE(current, 88)
  value.writeUInt16LE(next, 106)
  return value
}
const hook = (program: number) => Buffer.concat([Buffer.alloc(32, 7), Buffer.alloc(32, program)])

t.test('a mint that hands over what is sent is taken, with the extensions of common dollars', async (t) => {
  t.equal(mintFault(mint(), dollar2022), undefined)
  const common: [number, Uint8Array][] = [
    [3, Buffer.alloc(32, 1)],
    [12, Buffer.alloc(32, 1)],
    [1, feeConfig(0, 0)],
    [4, Buffer.alloc(65)],
    [16, Buffer.alloc(129)],
    [14, hook(0)],
    [18, Buffer.alloc(64)],
    [19, Buffer.alloc(200)],
    [26, Buffer.alloc(33)],
  ]
  t.equal(mintFault(mint(common), dollar2022), undefined)
  t.equal(mintFault(mint([...common, [0, Buffer.alloc(20)]]), dollar2022), undefined, 'with room at the end')
})

t.test('a mint that could hand over less, or that nobody here knows, is refused', async (t) => {
  const harmless: [number, Uint8Array] = [3, Buffer.alloc(32)]
  for (const [extension, words] of [
    [[1, feeConfig(1, 0)], /fee/],
    [[1, feeConfig(0, 1)], /fee/],
    [[1, Buffer.alloc(10)], /fee/],
    [[14, hook(1)], /program/],
    [[14, Buffer.alloc(3)], /program/],
    [[9, Buffer.alloc(0)], /transferred/],
    [[27, Buffer.alloc(0)], /extension 27/],
    [[999, Buffer.alloc(1)], /extension 999/],
  ] as const) {
    t.match(mintFault(mint([harmless, extension as [number, Uint8Array]]), dollar2022), words)
  }
})

t.test('a mint that is not what the configuration says is refused', async (t) => {
  t.match(mintFault(null, usdc), /does not exist/)
  t.match(mintFault(mint(), usdc), /to belong to the program/)
  t.match(mintFault(mint([], 9), dollar2022), /but it has 9/)
  const short = { ...mint(), data: [Buffer.alloc(81).toString('base64'), 'base64'] as const }
  t.match(mintFault(short, dollar2022), /is not a mint/)
  const account = { ...mint(), data: [Buffer.alloc(165, 1).toString('base64'), 'base64'] as const }
  t.match(mintFault(account, dollar2022), /is not a mint/)
  const empty = { ...mint(), data: [Buffer.alloc(82).toString('base64'), 'base64'] as const }
  t.match(mintFault(empty, dollar2022), /not initialized/)
})

t.test(
  'mints are read once for many payments, again after ten minutes, and kept for an hour without a node',
  async (t) => {
    let calls = 0
    let isUnavailable = false
    let now = 0
    const rpc: Pick<Rpc, 'call'> = {
      async call<T>() {
        calls++
        if (isUnavailable) throw new RpcUnreachable('away')
        return { context: { slot: 1 }, value: [mint()] } as T
      },
    }
    const facts = createMintFacts(rpc, [dollar2022], { now: () => now })
    await Promise.all(Array.from({ length: 5 }, () => facts.faultOf(dollar2022)))
    t.equal(calls, 1)
    now = 599_999
    await facts.faultOf(dollar2022)
    t.equal(calls, 1)
    isUnavailable = true
    now = 3_599_999
    t.equal(await facts.faultOf(dollar2022), undefined)
    t.equal(calls, 2)
    now = 3_600_000
    await t.rejects(facts.faultOf(dollar2022), { name: 'RpcUnreachable' })
    isUnavailable = false
    t.equal(await facts.faultOf(dollar2022), undefined)
  },
)
