import { existsSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import { hashTypedData } from 'viem'
import { keccak256 } from '../../../core/evm/hex.ts'
import { type TypedData, TypedDataProblem, type TypedField, typedDataPreimage } from './eip712.ts'

const vectors = new URL('../../../../shared/vectors/ethers_testcases_eip712.json.gz', import.meta.url)
const digestOf = (data: TypedData) => `0x${Buffer.from(keccak256(typedDataPreimage(data))).toString('hex')}`

interface Vector {
  readonly name: string
  readonly domain: Record<string, unknown>
  readonly primaryType: string
  readonly types: Record<string, TypedField[]>
  readonly data: Record<string, unknown>
  readonly digest: string
}

t.test('ethers: 1025 digests are equal', { skip: !existsSync(vectors) && 'no vectors' }, async (t) => {
  const cases: Vector[] = JSON.parse(gunzipSync(readFileSync(vectors)).toString())
  let count = 0
  for (const { name, domain, primaryType, types, data, digest } of cases) {
    const mine = digestOf({ domain, primaryType, types: new Map(Object.entries(types)), message: data })
    if (mine !== digest) t.fail(`${name}: ${mine}`)
    count++
  }
  t.equal(count, 1025)
})

const mail: TypedData = {
  domain: { name: 'Mail', version: '1', chainId: 8453 },
  types: new Map([
    ['Mail', [field('to', 'Person'), field('amounts', 'uint64[2]'), field('note', 'string')]],
    ['Person', [field('wallet', 'address'), field('tag', 'bytes4')]],
  ]),
  primaryType: 'Mail',
  message: {
    to: { wallet: `0x${'ab'.repeat(20)}`, tag: '0x01020304' },
    amounts: ['1', 2],
    note: 'hello',
  },
}

t.test('every departure from the one spelling is refused', async (t) => {
  t.equal(digestOf(mail), hashTypedData({ ...mail, types: Object.fromEntries(mail.types) } as never))
  const broken: [string, Partial<TypedData>][] = [
    ['a field too many', { message: { ...mail.message, more: 1 } }],
    ['a field too few', { message: { to: mail.message['to'], amounts: [1, 2] } }],
    ['a number out of range', { message: { ...mail.message, amounts: [1, 2n ** 64n] } }],
    ['a negative one', { message: { ...mail.message, amounts: [1, -1] } }],
    ['a fraction', { message: { ...mail.message, amounts: [1, 1.5] } }],
    ['an unsafe integer', { message: { ...mail.message, amounts: [1, 2 ** 60] } }],
    ['leading zeros', { message: { ...mail.message, amounts: ['1', '02'] } }],
    ['too long a list', { message: { ...mail.message, amounts: [1, 2, 3] } }],
    ['an unpaired surrogate', { message: { ...mail.message, note: '\ud800' } }],
    ['an unknown domain field', { domain: { ...mail.domain, chain: 1 } }],
    ['an unknown type', { types: new Map([...mail.types, ['X', [field('a', 'Y')]]]) }],
    ['an atomic name', { types: new Map([...mail.types, ['uint256', [field('a', 'bool')]]]) }],
    ['uint without a size', { types: new Map([...mail.types, ['X', [field('a', 'uint')]]]) }],
    ['a type in itself', { types: new Map([...mail.types, ['X', [field('a', 'X[]')]]]) }],
    ['a name with a bracket', { types: new Map([...mail.types, ['X(bool a)', [field('a', 'bool')]]]) }],
    ['a field twice', { types: new Map([...mail.types, ['X', [field('a', 'bool'), field('a', 'bool')]]]) }],
    ['no such primary type', { primaryType: 'toString' }],
  ]
  for (const [why, change] of broken) {
    t.throws(() => typedDataPreimage({ ...mail, ...change }), TypedDataProblem, why)
  }
})

t.test('a type may be named as wallets take it, and is hashed as they hash it', async (t) => {
  // https://hyperliquid.gitbook.io/hyperliquid-docs/for-developers/api/exchange-endpoint
  const send = 'HyperliquidTransaction:UsdSend'
  const fields = [field('hyperliquidChain', 'string'), field('amount', 'string'), field('time', 'uint64')]
  const message = { hyperliquidChain: 'Mainnet', amount: '1', time: 1690393044548 }
  for (const name of [send, 'a.b', 'org/x@2', 'A-B', '$', 'A::B']) {
    const data = { domain: mail.domain, types: new Map([[name, fields]]), primaryType: name, message }
    t.equal(digestOf(data), byViem(data), name)
  }
})

t.test('a type whose name is cut somewhere, or hides what it consists of, is refused', async (t) => {
  const flat = (name: string): Partial<TypedData> => ({
    types: new Map([[name, [field('a', 'bool')]]]),
    primaryType: name,
    message: { a: true },
  })
  const solidity = ['address', 'bool', 'string', 'bytes', 'bytes33', 'uint', 'int', 'uint7', 'int08']
  for (const name of [
    '',
    'A B',
    'A(',
    'A)',
    'A,B',
    'A[]',
    'A[B',
    'A"',
    'A\\',
    'Ａ',
    'А',
    '1A',
    ':A',
    ...solidity,
  ])
    t.throws(() => typedDataPreimage({ ...mail, ...flat(name) }), TypedDataProblem, name)
  // Wallets find the parts of a type by the letters that a name begins with, other software by the whole name.
  const inner = [field('x', 'bool')]
  for (const [why, types, message] of [
    [
      'refers to another',
      [
        ['A:B', [field('y', 'Y')]],
        ['Y', inner],
      ],
      { y: { x: true } },
    ],
    [
      'refers to a list of others',
      [
        ['A:B', [field('y', 'Y[]')]],
        ['Y', inner],
      ],
      { y: [] },
    ],
    [
      'is referred to',
      [
        ['X', [field('y', 'A:B')]],
        ['A:B', inner],
      ],
      { y: { x: true } },
    ],
    [
      'is taken for another',
      [
        ['A:B', inner],
        ['A', inner],
      ],
      { x: true },
    ],
    [
      'refers with a dollar',
      [
        ['$A', [field('y', 'Y')]],
        ['Y', inner],
      ],
      { y: { x: true } },
    ],
  ] as [string, [string, TypedField[]][], Record<string, unknown>][]) {
    const data = { ...mail, types: new Map(types), primaryType: types[0]![0], message }
    t.throws(() => typedDataPreimage(data), { message: /wallets/ }, why)
  }
})

t.test('whatever types are called: what is accepted is hashed as viem hashes it', async (t) => {
  const name = fc.string({ unit: fc.constantFrom(...'AB:$.a(1 '), minLength: 1, maxLength: 4 })
  let accepted = 0
  fc.assert(
    fc.property(name, name, fc.boolean(), fc.boolean(), (first, second, refers, isList) => {
      const inner = { b: true }
      const type = !refers ? 'bool' : isList ? `${second}[]` : second
      const data: TypedData = {
        domain: mail.domain,
        types: new Map([
          [first, [field('a', type)]],
          [second, [field('b', 'bool')]],
        ]),
        primaryType: first,
        message: first === second ? inner : { a: !refers ? true : isList ? [inner] : inner },
      }
      let mine: string
      try {
        mine = digestOf(data)
      } catch (error) {
        return error instanceof TypedDataProblem
      }
      accepted++
      return mine === byViem(data)
    }),
    { numRuns: 2_000 },
  )
  t.ok(accepted > 20, `${accepted} of them are accepted`)
})

t.test('any change of a value changes the digest', async () => {
  fc.assert(
    fc.property(fc.bigInt(0n, 2n ** 64n - 1n), fc.bigInt(0n, 2n ** 64n - 1n), fc.string(), (a, b, note) => {
      const changed = { ...mail, message: { ...mail.message, amounts: [a, b], note: note.toWellFormed() } }
      const isSame = a === 1n && b === 2n && note === 'hello'
      return (digestOf(changed) === digestOf(mail)) === isSame
    }),
  )
})

t.test('each type is hashed once and each value once, whatever the types are', async (t) => {
  // A type with many references, and as many of it as fit.
  const wide = Array.from({ length: 300 }, (_, i) => field(`f${i}`, 'bool'))
  const many: TypedData = {
    domain: { name: 'x' },
    types: new Map([
      ['M', [field('a', 'S[]')]],
      ['S', [field('w', 'W[]')]],
      ['W', wide],
    ]),
    primaryType: 'M',
    message: { a: Array.from({ length: 1_300 }, () => ({ w: [] })) },
  }
  let calls = 0
  let bytes = 0
  typedDataPreimage(many, (data) => {
    calls++
    bytes += data.length
    return keccak256(data)
  })
  // Domain: type, name, struct. Types M and S; W is never met. The list, and of each S its list and itself.
  t.equal(calls, 3 + 2 + 1 + 1 + 2 * 1_300)
  t.ok(bytes < 200_000, 'the text of the types is not hashed for each value')
})

t.test('what would keep its reader busy is refused, with the limit', async (t) => {
  const types = (count: number, fields: (i: number) => TypedField[]) =>
    new Map(Array.from({ length: count }, (_, i) => [`T${i}`, fields(i)]))
  const doubled = types(60, (i) => (i < 59 ? [field('a', `T${i + 1}[]`), field('b', `T${i + 1}[]`)] : []))
  t.ok(typedDataPreimage({ ...mail, types: doubled, primaryType: 'T0', message: { a: [], b: [] } }))
  const list = (type: string) => ({ types: new Map([['M', [field('a', type)]]]), primaryType: 'M' })
  for (const [change, lines] of [
    [{ types: types(65, () => [field('a', 'bool')]), primaryType: 'T0', message: { a: true } }, /64 types/],
    [
      {
        types: new Map([['M', Array.from({ length: 2_000 }, (_, i) => field(`f${i}`, 'uint256'))]]),
        primaryType: 'M',
      },
      /16384 characters of types/,
    ],
    [{ ...list(`bool${'[]'.repeat(9_000)}`), message: { a: [] } }, /256 characters/],
    [{ ...list('uint8[]'), message: { a: Array(5_000).fill(1) } }, /4096 values/],
    [{ ...list(`uint8${'[]'.repeat(20)}`), message: { a: nested(20) } }, /16 levels/],
  ] as const)
    t.throws(() => typedDataPreimage({ ...mail, ...change } as TypedData), { message: lines })
})

function byViem(data: TypedData): string {
  return hashTypedData({ ...data, types: Object.fromEntries(data.types) } as never)
}

function nested(depth: number): unknown {
  return depth === 0 ? 1 : [nested(depth - 1)]
}

function field(name: string, type: string): TypedField {
  return { name, type }
}
