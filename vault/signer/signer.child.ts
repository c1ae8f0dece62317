import type { KeyFamily } from '../ports/keyring.ts'
import { Custodian, Refusal } from './custodian.ts'
import { KeyStore } from './keyStore.ts'
import {
  answerFrame,
  createFrameReader,
  fromChild,
  type Proof,
  signKinds,
  toChild,
  unpackFields,
} from './protocol.ts'

/**
 * The process that holds the keys and signs. It reads requests from its standard input and answers on its standard output; it
 * opens no file and no socket, and what it was told is in no argument and no environment. It ends when its input does.
 */
const store = new KeyStore()
const custodian = new Custodian(store)
const nothing = Buffer.alloc(0)

type Fields = readonly Buffer[]
type Answer = Buffer | undefined | Promise<Buffer>

/** How many fields a proof takes, and where a request's own begin. */
const proofLength = 4

const proofOf = (fields: Fields): Proof => ({
  vaultId: text(fields[0]),
  wrappedKey: fields[1]!,
  associated: fields[2]!,
  passwordKey: fields[3]!,
})

/** What each request does with its fields. Those that give a key away, or take one in, begin with a proof. */
const requests: Readonly<Record<number, (fields: Fields) => Answer>> = {
  [toChild.describe]: ([keyId]) => known(store.publicKey(text(keyId))),
  [toChild.sign]: ([kind, keyId, bytes]) => {
    const signature = store.sign(text(keyId), signKinds[kind![0]!]!, bytes!)
    if (signature === 'wrong-kind') throw new Refusal(fromChild.wrongKind)
    return known(signature === 'key-unknown' ? undefined : signature)
  },
  [toChild.backupKey]: ([salt]) => custodian.backupKey(salt!),
  [toChild.load]: ([id, version, sealed]) => {
    custodian.load({ id: text(id), version: whole(version), sealed: sealed! })
    return undefined
  },
  [toChild.open]: (fields) => custodian.open(proofOf(fields)),
  [toChild.check]: (fields) => {
    custodian.check(proofOf(fields))
    return undefined
  },
  [toChild.wrap]: (fields) => {
    const [passwordKey, associated] = fields.slice(proofLength)
    return custodian.wrap(proofOf(fields), passwordKey!, associated!)
  },
  [toChild.importKey]: (fields) => {
    const [id, version, family, privateKey] = fields.slice(proofLength)
    const record = { id: text(id), version: whole(version) }
    return custodian.importKey(proofOf(fields), record, text(family) as KeyFamily, privateKey!)
  },
  [toChild.importSeed]: (fields) => {
    const [words, version, oldVersion, old, keptId, keptVersion] = fields.slice(proofLength)
    const kept = old && {
      record: { id: 'seed', version: whole(oldVersion), sealed: old },
      as: { id: text(keptId), version: whole(keptVersion) },
    }
    return custodian.importSeed(proofOf(fields), words!, whole(version), kept)
  },
  [toChild.exportKey]: (fields) => custodian.exportKey(proofOf(fields), text(fields[proofLength])),
  [toChild.exportWords]: (fields) => {
    const [version, sealed] = fields.slice(proofLength)
    return custodian.exportWords(proofOf(fields), { id: 'seed', version: whole(version), sealed: sealed! })
  },
  [toChild.create]: ([vaultId, associated, passwordKey]) =>
    custodian.create({ vaultId: text(vaultId), associated: associated!, passwordKey: passwordKey! }),
}

function handle(body: Buffer): void {
  const request = body.readUInt32BE(1)
  try {
    const answer = requests[body.readUInt8(0)]!(unpackFields(body.subarray(5)))
    if (!(answer instanceof Promise)) return done(request, answer)
    answer.then(
      (late) => done(request, late),
      (error: unknown) => refuse(request, error),
    )
  } catch (error) {
    refuse(request, error)
  }
}

function done(request: number, answer: Buffer | undefined): void {
  write(answerFrame(request, fromChild.done, answer))
  answer?.fill(0)
}

/** Whatever a library says about it may quote what it was given: of other errors nothing leaves. */
function refuse(request: number, error: unknown): void {
  if (!(error instanceof Refusal)) return write(answerFrame(request, fromChild.failed))
  write(
    answerFrame(request, error.status, error.message === '' ? nothing : Buffer.from(error.message, 'utf8')),
  )
}

/** Zeroes the frame once the pipe has taken it. */
function write(frame: Buffer): void {
  process.stdout.write(frame, () => frame.fill(0))
}

function end(code: number): void {
  custodian.wipe()
  process.exit(code)
}

function known(bytes: Buffer | undefined): Buffer {
  if (bytes === undefined) throw new Refusal(fromChild.keyUnknown)
  return bytes
}

function text(field: Buffer | undefined): string {
  return field!.toString('utf8')
}

function whole(field: Buffer | undefined): number {
  return field!.readUInt32BE()
}

// Ctrl-C and a service manager's stop reach the whole group; the vault decides when this process ends.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.on('uncaughtException', () => end(70))
process.stdout.on('error', () => end(0))
process.stdin.on('data', createFrameReader(handle))
process.stdin.on('end', () => end(0))
process.stdin.on('error', () => end(0))
