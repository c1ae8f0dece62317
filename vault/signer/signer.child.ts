import type { KeyFamily } from '../ports/keyring.ts'
import { Custodian, Refusal } from './custodian.ts'
import { KeyStore } from './keyStore.ts'
import {
  createFrameReader,
  fromChild,
  type Proof,
  responseFrame,
  signKinds,
  toChild,
  unpackFields,
} from './protocol.ts'

/**
 * The process that has the keys and signs. It reads requests from standard input and responds on standard output. It opens
 * no file and no socket, and receives nothing by arguments or environment. It ends when its input ends.
 */
const store = new KeyStore()
const custodian = new Custodian(store)
const nothing = Buffer.alloc(0)

type Fields = readonly Buffer[]
type Answer = Buffer | undefined | Promise<Buffer>

/** Number of fields in a proof. A request's own fields follow them. */
const proofLength = 4

const proofOf = (fields: Fields): Proof => ({
  vaultId: text(fields[0]),
  wrappedKey: fields[1]!,
  associated: fields[2]!,
  passwordKey: fields[3]!,
})

/** The handler of each request. Requests that export or import a key start with a proof. */
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
    const [words, version, oldVersion, old, storedId, storedVersion] = fields.slice(proofLength)
    const kept = old && {
      record: { id: 'seed', version: whole(oldVersion), sealed: old },
      as: { id: text(storedId), version: whole(storedVersion) },
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
    const response = requests[body.readUInt8(0)]!(unpackFields(body.subarray(5)))
    if (!(response instanceof Promise)) return done(request, response)
    response.then(
      (late) => done(request, late),
      (error: unknown) => refuse(request, error),
    )
  } catch (error) {
    refuse(request, error)
  }
}

function done(request: number, response: Buffer | undefined): void {
  write(responseFrame(request, fromChild.done, response))
  response?.fill(0)
}

/** Sends a refusal. Only a {@link Refusal} is reported in words, because a library's message may quote its input. */
function refuse(request: number, error: unknown): void {
  if (!(error instanceof Refusal)) return write(responseFrame(request, fromChild.failed))
  write(
    responseFrame(request, error.status, error.message === '' ? nothing : Buffer.from(error.message, 'utf8')),
  )
}

/** Zeroes the frame once the pipe has accepted it. */
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

// Ctrl-C and a service manager's stop signal reach the whole process group. They are ignored, because the vault decides when
// this process ends.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.on('uncaughtException', () => end(70))
process.stdout.on('error', () => end(0))
process.stdin.on('data', createFrameReader(handle))
process.stdin.on('end', () => end(0))
process.stdin.on('error', () => end(0))
