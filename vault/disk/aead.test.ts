import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { readVectors, type Wycheproof } from '../../test/helpers/vectors.ts'
import { lengthPrefixed, seal, unseal } from './aead.ts'

const hex = (text: string) => Buffer.from(text, 'hex')
const bytes = fc.uint8Array({ maxLength: 300 })
const key = fc.uint8Array({ minLength: 32, maxLength: 32 })

t.test(
  'what was sealed opens with its key and association, and with no byte of anything changed',
  async () => {
    fc.assert(
      fc.property(
        key,
        bytes,
        bytes,
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        (k, plain, associated, at, flip) => {
          const sealed = seal(k, plain, associated)
          const opened = unseal(k, sealed, associated)
          const changed = Buffer.from(sealed)
          changed[at % changed.length]! ^= flip
          const otherKey = Buffer.from(k)
          otherKey[at % 32]! ^= flip
          return (
            opened?.equals(plain) === true &&
            unseal(k, changed, associated) === undefined &&
            unseal(otherKey, sealed, associated) === undefined &&
            unseal(k, sealed, Buffer.concat([associated, Uint8Array.of(flip)])) === undefined &&
            unseal(k, sealed.subarray(0, at % sealed.length), associated) === undefined
          )
        },
      ),
    )
  },
)

t.test('two lists of parts never join to the same bytes', async () => {
  const parts = fc.array(fc.string({ maxLength: 6 }), { maxLength: 4 })
  fc.assert(
    fc.property(parts, parts, (a, b) => {
      fc.pre(JSON.stringify(a) !== JSON.stringify(b))
      return !lengthPrefixed(...a).equals(lengthPrefixed(...b))
    }),
    { numRuns: 1_000 },
  )
})

interface AeadGroup {
  readonly ivSize: number
  readonly keySize: number
  readonly tagSize: number
  readonly tests: readonly {
    readonly tcId: number
    readonly key: string
    readonly iv: string
    readonly aad: string
    readonly msg: string
    readonly ct: string
    readonly tag: string
    readonly result: 'valid' | 'invalid'
  }[]
}

t.test('AES-256-GCM answers every Wycheproof case as it must', async (t) => {
  const vectors = readVectors<Wycheproof<AeadGroup>>('wycheproof_aes_gcm.json.gz')
  if (vectors === undefined) return t.pass('not tried', { skip: 'the shared vectors are not here' })
  const groups = vectors.testGroups.filter((g) => g.keySize === 256 && g.ivSize === 96 && g.tagSize === 128)
  let cases = 0
  for (const test of groups.flatMap((group) => group.tests)) {
    const sealed = hex(test.iv + test.ct + test.tag)
    const opened = unseal(hex(test.key), sealed, hex(test.aad))
    t.equal(opened?.toString('hex'), test.result === 'valid' ? test.msg : undefined, `case ${test.tcId}`)
    cases++
  }
  t.ok(cases > 50, `${cases} cases of the sizes in use`)
})

t.test('a sealed text has the form of plain AES-256-GCM, for another program to open', async (t) => {
  const k = Buffer.alloc(32, 7)
  const sealed = seal(k, Buffer.from('hello'), Buffer.from('there'))
  const open = createDecipheriv('aes-256-gcm', k, sealed.subarray(0, 12), { authTagLength: 16 })
  open.setAAD(Buffer.from('there')).setAuthTag(sealed.subarray(-16))
  t.equal(Buffer.concat([open.update(sealed.subarray(12, -16)), open.final()]).toString(), 'hello')
  const close = createCipheriv('aes-256-gcm', k, Buffer.alloc(12, 1)).setAAD(Buffer.from('there'))
  const theirs = Buffer.concat([
    Buffer.alloc(12, 1),
    close.update('hello'),
    close.final(),
    close.getAuthTag(),
  ])
  t.equal(unseal(k, theirs, Buffer.from('there'))?.toString(), 'hello')
})

interface HkdfGroup {
  readonly tests: readonly {
    readonly tcId: number
    readonly ikm: string
    readonly salt: string
    readonly info: string
    readonly size: number
    readonly okm: string
    readonly result: 'valid' | 'invalid'
  }[]
}

t.test('the runtime derives keys as every Wycheproof case of HKDF-SHA256 says', async (t) => {
  const vectors = readVectors<Wycheproof<HkdfGroup>>('wycheproof_hkdf_sha256.json.gz')
  if (vectors === undefined) return t.pass('not tried', { skip: 'the shared vectors are not here' })
  for (const test of vectors.testGroups.flatMap((group) => group.tests)) {
    const derive = () =>
      Buffer.from(hkdfSync('sha256', hex(test.ikm), hex(test.salt), hex(test.info), test.size)).toString(
        'hex',
      )
    if (test.result === 'invalid') t.throws(derive, `case ${test.tcId}`)
    else t.equal(derive(), test.okm, `case ${test.tcId}`)
  }
})
