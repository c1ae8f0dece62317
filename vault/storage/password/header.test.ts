import { argon2Sync, createHash } from 'node:crypto'
import t from 'tap'
import { quickHasher } from '../../../test/helpers/vault/quickHasher.ts'
import { seal, unseal } from '../../disk/aead.ts'
import {
  associatedOf,
  decodeHeader,
  encodeHeader,
  headerFor,
  passwordKeyOf,
  proofOf,
  type VaultHeader,
} from './header.ts'
import {
  argon2idHasher,
  assertPassword,
  assertWithinBounds,
  calibrateKdf,
  type KdfParameters,
  kdfCap,
  kdfFloor,
  type PasswordHasher,
} from './kdf.ts'

const masterKey = Buffer.alloc(32, 9)
const place = { lineage: 'one', counter: 0, passwords: 0 }
const vault = {
  vaultId: 'vlt_1',
  createdAt: '2026-03-01T12:00:00.000Z',
  place,
  kdf: kdfFloor,
}

/** As the signing process wraps it, with what the host provides. */
async function wrapMasterKey(
  header: Omit<VaultHeader, 'salt' | 'wrappedKey'>,
  key: Buffer,
  password: string,
  hasher: PasswordHasher,
): Promise<VaultHeader> {
  const open = headerFor(header)
  return { ...open, wrappedKey: seal(await passwordKeyOf(open, password, hasher), key, associatedOf(open)) }
}
async function unwrapMasterKey(header: VaultHeader, password: string, hasher: PasswordHasher) {
  const { passwordKey, wrappedKey, associated } = proofOf(
    header,
    await passwordKeyOf(header, password, hasher),
  )
  return unseal(passwordKey, wrappedKey, associated)
}

t.test('the password key is Argon2id as another implementation computes it', async (t) => {
  const salt = Buffer.alloc(16, 3)
  const ours = await argon2idHasher.hash('pässword', salt, kdfFloor)
  const { memoryKiB, passes, lanes } = kdfFloor
  const options = {
    message: 'pässword',
    nonce: salt,
    parallelism: lanes,
    tagLength: 32,
    memory: memoryKiB,
    passes,
  }
  t.strictSame(ours, argon2Sync('argon2id', options))
  const decomposed = await argon2idHasher.hash('pässword'.normalize('NFD'), salt, kdfFloor)
  t.strictSame(decomposed, ours, 'the same letters from another keyboard')
})

t.test('parameters below the floor and above the cap are refused before any work', async (t) => {
  const salt = Buffer.alloc(16)
  for (const name of ['memoryKiB', 'passes', 'lanes'] as const) {
    for (const value of [
      kdfFloor[name] - 1,
      kdfCap[name] + 1,
      0,
      -1,
      3.5,
      Number.NaN,
      Number.POSITIVE_INFINITY,
    ]) {
      const parameters = { ...kdfFloor, [name]: value }
      t.throws(() => assertWithinBounds(parameters), { code: 'VALIDATION_ERROR' }, `${name} ${value}`)
      await t.rejects(argon2idHasher.hash('password', salt, parameters), { code: 'VALIDATION_ERROR' })
      await t.rejects(wrapMasterKey({ ...vault, kdf: parameters }, masterKey, 'password', quickHasher))
    }
  }
})

/** A machine on which a hash takes this long; `tookMs` gets the passes and the number of earlier hashes. */
function machine(tookMs: (passes: number, before: number) => number) {
  let nowMs = 0
  const requests: number[] = []
  const hasher = {
    hash: async (_password: string, _salt: Uint8Array, { passes }: KdfParameters) => {
      nowMs += tookMs(passes, requests.length)
      requests.push(passes)
      return Buffer.alloc(32)
    },
  }
  return { calibrate: () => calibrateKdf(hasher, () => nowMs), requests }
}

t.test('passes are chosen by warm runs, so that a try takes 250 ms and hardly more', async (t) => {
  const cold = machine((passes, before) => passes * 16 + (before === 0 ? 140 : 0))
  t.strictSame(
    await cold.calibrate(),
    { ...kdfFloor, passes: 16 },
    'the first run of a process counts for nothing',
  )
  const busy = machine((passes, before) => passes * 16 + (before % 3 === 0 ? 0 : 900))
  t.equal((await busy.calibrate()).passes, 16, 'nor does what other programs take')
  const fixed = machine((passes) => 30 + passes * 10)
  t.equal((await fixed.calibrate()).passes, 22, 'what only the start of a hash costs is no pass')
})

t.test('calibration stays between the floor and the cap, on machines of any speed', async (t) => {
  t.doesNotThrow(() => assertWithinBounds(kdfFloor))
  t.strictSame(await machine((passes) => passes * 200).calibrate(), kdfFloor)
  for (const quick of [machine(() => 0), machine((passes) => passes * 0.001), machine(() => 249)]) {
    t.strictSame(await quick.calibrate(), { ...kdfFloor, passes: kdfCap.passes })
    t.ok(quick.requests.length < 200, 'and comes to an end')
  }
})

t.test('a master key comes out under its password only, and every wrapping is another', async (t) => {
  const header = await wrapMasterKey(vault, masterKey, 'right password', quickHasher)
  t.strictSame(await unwrapMasterKey(header, 'right password', quickHasher), masterKey)
  t.equal(await unwrapMasterKey(header, 'wrong password', quickHasher), undefined)
  const again = await wrapMasterKey(vault, masterKey, 'right password', quickHasher)
  t.notSame(again.salt, header.salt)
  t.notSame(again.wrappedKey, header.wrappedKey)
})

t.test('the parameters, the salt, the vault and its date belong to the wrapping', async (t) => {
  /** Returns the same key for any input, so that only the associated data can refuse. */
  const deaf = { hash: async () => Buffer.alloc(32, 1) }
  const header = await wrapMasterKey(
    { ...vault, kdf: { ...kdfFloor, passes: 9 } },
    masterKey,
    'password',
    deaf,
  )
  t.ok(await unwrapMasterKey(header, 'password', deaf))
  const kdfs: KdfParameters[] = [kdfFloor, { ...header.kdf, memoryKiB: 65_537 }, { ...header.kdf, lanes: 2 }]
  const forged = [
    ...kdfs.map((kdf) => ({ ...header, kdf })),
    { ...header, salt: Buffer.alloc(16) },
    { ...header, vaultId: 'vlt_2' },
    { ...header, createdAt: '2026-03-01T12:00:00.001Z' },
    { ...header, place: { ...place, lineage: 'two' } },
    { ...header, place: { ...place, counter: 1 } },
    { ...header, place: { ...place, passwords: 1 } },
  ]
  for (const other of forged) t.equal(await unwrapMasterKey(other, 'password', deaf), undefined)
})

t.test('a header reads back as it was, and says so when any byte of it was changed', async (t) => {
  const header = await wrapMasterKey(vault, masterKey, 'right password', quickHasher)
  const bytes = encodeHeader(header)
  t.strictSame(decodeHeader(bytes), header)
  for (let at = 0; at < bytes.length; at++) {
    for (const flip of [0x01, 0x20, 0x80]) {
      const changed = Buffer.from(bytes)
      changed[at]! ^= flip
      t.throws(() => decodeHeader(changed), { code: 'VAULT_CORRUPT' }, `byte ${at}`)
    }
  }
  for (const other of ['', '{}', 'null', '[]', `${bytes} `]) {
    t.throws(() => decodeHeader(Buffer.from(other)), { code: 'VAULT_CORRUPT' })
  }
  const weak = encodeHeader({ ...header, kdf: { ...kdfFloor, passes: 1 } })
  t.throws(() => decodeHeader(weak), { code: 'VAULT_CORRUPT' }, 'a right checksum over weak parameters')
})

t.test('a whole header of another version is named as that, and a damaged one as damaged', async (t) => {
  const { checksum: _, ...body } = JSON.parse(
    encodeHeader(await wrapMasterKey(vault, masterKey, 'right password', quickHasher)).toString('utf8'),
  )
  const ofVersion = (version: unknown) => {
    const other = { ...body, version, more: { than: 'this version knows' } }
    const checksum = createHash('sha256').update(JSON.stringify(other)).digest('hex')
    return Buffer.from(JSON.stringify({ ...other, checksum }))
  }
  const newer = /^Expected version 2 of vault\.json, got version 3, which a newer version of Tollgate wrote\./
  t.throws(() => decodeHeader(ofVersion(3)), { code: 'VAULT_CORRUPT', message: newer })
  for (const version of [1, 0, -1, '3', null, undefined])
    t.throws(
      () => decodeHeader(ofVersion(version)),
      { code: 'VAULT_CORRUPT', message: /^Expected version 2 of vault\.json, got .*Create a new vault/ },
      `version ${version}`,
    )
  const damaged = Buffer.from(ofVersion(3).toString('latin1').replace('more', 'mode'), 'latin1')
  for (const bytes of [damaged, ofVersion(2)])
    t.throws(() => decodeHeader(bytes), { code: 'VAULT_CORRUPT', message: /damaged/ })
})

t.test(
  'a password with letters that could not be read is refused: another one would open the same vault',
  async (t) => {
    for (const password of ['\uFFFD'.repeat(12), 'correct horse \uFFFD', 'correct horse \uD800'])
      t.throws(() => assertPassword(password), { code: 'VALIDATION_ERROR', message: /another encoding/ })
    t.doesNotThrow(() => assertPassword('пароль-длинный 🔑'))
  },
)
