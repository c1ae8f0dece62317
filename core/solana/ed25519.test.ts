import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { verifyEd25519 } from './ed25519.ts'

const vectors = new URL('../../../shared/vectors/wycheproof_ed25519.json.gz', import.meta.url)
const hex = (text: string) => Buffer.from(text, 'hex')

t.test(
  'Wycheproof: valid signatures are taken, invalid ones are not',
  { skip: !existsSync(vectors) && 'no vectors' },
  async (t) => {
    const { testGroups } = JSON.parse(gunzipSync(readFileSync(vectors)).toString())
    let count = 0
    for (const { publicKey, tests } of testGroups) {
      for (const { msg, sig, result, tcId, comment } of tests) {
        const isValid = verifyEd25519(hex(publicKey.pk), hex(msg), hex(sig))
        if (isValid !== (result === 'valid')) t.fail(`${tcId} ${comment}`)
        count++
      }
    }
    t.ok(count > 100, `${count} vectors`)
  },
)

/** The group's order (RFC 8032, section 5.1). */
const L = 2n ** 252n + 27742317777372353535851937790883648493n
const littleEndian = (bytes: Uint8Array) => BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`)
const scalarBytes = (scalar: bigint) => hex(scalar.toString(16).padStart(64, '0')).reverse()
const base = hex('5866666666666666666666666666666666666666666666666666666666666666')
const identity = Buffer.alloc(32).fill(1, 0, 1)

t.test('nobody can sign for a key of small order, such as the all-zero address', async (t) => {
  const smallKeys = [
    '0000000000000000000000000000000000000000000000000000000000000000',
    '0000000000000000000000000000000000000000000000000000000000000080',
    '0100000000000000000000000000000000000000000000000000000000000000',
    'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa',
    'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff',
  ]
  // S = 1 with R = B fits whenever the hash is a multiple of the key's order: for one message in eight at least.
  for (const key of smallKeys) {
    for (let i = 0; i < 64; i++) {
      const message = Buffer.from(`message ${i}`)
      if (verifyEd25519(hex(key), message, Buffer.concat([base, scalarBytes(1n)])))
        t.fail(`${key} signed ${message}`)
    }
    t.pass(key)
  }
})

t.test(
  'an R of small order is refused, though the equation holds; a plain one made in the same way is taken',
  async (t) => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    const seed = privateKey.export({ format: 'der', type: 'pkcs8' }).subarray(-32)
    const key = publicKey.export({ format: 'der', type: 'spki' }).subarray(-32)
    const digest = createHash('sha512').update(seed).digest()
    digest[0]! &= 248
    digest[31] = (digest[31]! & 127) | 64
    const secret = littleEndian(digest.subarray(0, 32))
    const message = Buffer.from('pay')
    const signWith = (r: bigint, point: Buffer) => {
      const k = littleEndian(createHash('sha512').update(point).update(key).update(message).digest()) % L
      return Buffer.concat([point, scalarBytes((r + k * secret) % L)])
    }
    t.ok(verifyEd25519(key, message, signWith(1n, base)))
    t.notOk(verifyEd25519(key, message, signWith(0n, identity)))

    const good = sign(null, message, privateKey)
    t.ok(verifyEd25519(key, message, good))
    const malleable = Buffer.concat([good.subarray(0, 32), scalarBytes(littleEndian(good.subarray(32)) + L)])
    t.notOk(verifyEd25519(key, message, malleable), 'S is not reduced')
  },
)

t.test('keys and signatures of a wrong length are refused, not thrown at', async (t) => {
  for (const length of [0, 31, 33])
    t.notOk(verifyEd25519(new Uint8Array(length), identity, new Uint8Array(64)))
  for (const length of [0, 63, 65]) t.notOk(verifyEd25519(base, identity, new Uint8Array(length)))
  t.notOk(verifyEd25519(Buffer.alloc(32, 2), identity, new Uint8Array(64)), 'a key off the curve')
})
