import { createHash, randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import { recoverAddress } from 'viem'
import { keccak256 } from '../../../../core/evm/hex.ts'
import { newAccount } from '../../../../test/helpers/chains/evm/settler.ts'
import type { Hex } from '../rpc/nodes.ts'
import { loadNativeSecp256k1, loadNobleSecp256k1, secp256k1 } from '../settle/transaction.ts'
import { recoverSigner } from './authorization.ts'

const curves = [loadNativeSecp256k1(), loadNobleSecp256k1()]
const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const fieldPrime = 2n ** 256n - 2n ** 32n - 977n
const vectors = new URL(
  '../../../../../shared/vectors/wycheproof_ecdsa_secp256k1_sha256_bitcoin.json.gz',
  import.meta.url,
)

t.equal(secp256k1.name, 'libsecp256k1', 'the native addon loads here')

t.test('both curves name the signer that viem names', async (t) => {
  for (let i = 0; i < 20; i++) {
    const account = newAccount()
    const digest = randomBytes(32)
    const signature = await account.sign({ hash: `0x${digest.toString('hex')}` })
    for (const curve of curves) {
      t.equal(recoverSigner(digest, signature, curve), account.address.toLowerCase(), curve.name)
    }
  }
})

t.test('any 65 bytes: both curves and viem name the same signer, or none', async () => {
  const run = fc.asyncProperty(
    fc.uint8Array({ minLength: 64, maxLength: 64 }),
    fc.constantFrom(27, 28),
    fc.uint8Array({ minLength: 32, maxLength: 32 }),
    async (rs, v, digest) => {
      const hex = `0x${Buffer.from(rs).toString('hex')}${v.toString(16)}` as Hex
      const [native, noble] = curves.map((curve) => recoverSigner(digest, hex, curve))
      if (native !== noble) return false
      if (native === undefined) return true
      const theirs = await recoverAddress({
        hash: `0x${Buffer.from(digest).toString('hex')}`,
        signature: hex,
      })
      return theirs.toLowerCase() === native
    },
  )
  await fc.assert(run, { numRuns: 100 })
})

t.test(
  'a recovery id of 0 or 1 is a v of 27 or 28; the twin of a signature, another v and another length name nobody',
  async (t) => {
    const account = newAccount()
    const digest = randomBytes(32)
    const signature = await account.sign({ hash: `0x${digest.toString('hex')}` })
    const r = signature.slice(2, 66)
    const s = BigInt(`0x${signature.slice(66, 130)}`)
    const v = Number.parseInt(signature.slice(130), 16)
    const twin = `0x${r}${(order - s).toString(16).padStart(64, '0')}${(v === 27 ? 28 : 27).toString(16)}`
    const base = signature.slice(0, 130)
    for (const curve of curves) {
      t.equal(recoverSigner(digest, twin, curve), undefined, 'a high s is refused (EIP-2)')
      t.equal(recoverSigner(digest, `${base}0${v - 27}`, curve), account.address.toLowerCase())
      t.not(recoverSigner(digest, `${base}0${28 - v}`, curve), account.address.toLowerCase())
      for (const other of ['02', '1a', '1d', '23', 'ff']) {
        t.equal(recoverSigner(digest, base + other, curve), undefined, `v of 0x${other}`)
      }
      t.not(recoverSigner(digest, base + (v === 27 ? '1c' : '1b'), curve), account.address.toLowerCase())
      t.equal(recoverSigner(digest, base, curve), undefined, '64 bytes')
      t.equal(recoverSigner(digest, `${signature}00`, curve), undefined, '66 bytes')
      t.equal(recoverSigner(digest, `0x${'00'.repeat(64)}1b`, curve), undefined, 'r and s of zero')
    }
  },
)

interface Vectors {
  testGroups: {
    publicKey: { uncompressed: string }
    tests: { tcId: number; comment: string; msg: string; sig: string; result: 'valid' | 'invalid' }[]
  }[]
}

t.test(
  'Wycheproof: a valid signature names the key, an invalid one does not',
  { skip: !existsSync(vectors) },
  async (t) => {
    const { testGroups } = JSON.parse(gunzipSync(readFileSync(vectors)).toString()) as Vectors
    let valid = 0
    let invalid = 0
    for (const { publicKey, tests } of testGroups) {
      const hash = keccak256(Buffer.from(publicKey.uncompressed, 'hex').subarray(1))
      const address = `0x${Buffer.from(hash).toString('hex').slice(24)}`
      for (const { tcId, comment, msg, sig, result } of tests) {
        // Ethereum does not use DER, so a signature that is not two numbers of 32 bytes cannot be expressed.
        const compact = compactOf(Buffer.from(sig, 'hex'))
        if (compact === undefined) {
          if (result === 'valid') t.fail(`${tcId} could not be read`)
          continue
        }
        // x of k·G above the order: recovery needs an id of 2 or 3, and Ethereum's v has no such value (yellow paper, F).
        if (BigInt(`0x${compact.slice(0, 64)}`) < fieldPrime - order && result === 'valid') continue
        const digest = createHash('sha256').update(Buffer.from(msg, 'hex')).digest()
        for (const curve of curves) {
          const named = ['1b', '1c'].some((v) => recoverSigner(digest, `0x${compact}${v}`, curve) === address)
          if (named !== (result === 'valid')) t.fail(`${curve.name}: ${tcId} ${comment}`)
        }
        if (result === 'valid') valid++
        else invalid++
      }
    }
    t.ok(valid > 100 && invalid > 30, `${valid} valid and ${invalid} invalid signatures were tried`)
  },
)

/** `r` and `s` as 64 bytes of hex, from strict DER; undefined for other input. */
function compactOf(der: Buffer): string | undefined {
  if (der[0] !== 0x30 || der[1] !== der.length - 2) return undefined
  const parts: string[] = []
  let at = 2
  for (let i = 0; i < 2; i++) {
    const length = der[at + 1]
    if (der[at] !== 0x02 || length === undefined || length === 0) return undefined
    const digits = der.subarray(at + 2, at + 2 + length)
    if (digits.length !== length || digits[0]! > 0x7f || (digits[0] === 0 && length > 1 && digits[1]! < 0x80))
      return undefined
    const value = BigInt(`0x${digits.toString('hex')}`)
    if (value >= 2n ** 256n) return undefined
    parts.push(value.toString(16).padStart(64, '0'))
    at += 2 + length
  }
  return at === der.length ? parts.join('') : undefined
}
