import { KeyStore } from './keyStore.ts'
import { answerFrame, createFrameReader, fromChild, readShortText, signKinds, toChild } from './protocol.ts'

/**
 * The process that signs. It reads keys and requests from its standard input and answers on its standard output; it opens
 * no file and no socket, and what it was told is in no argument and no environment. It ends when its input does.
 */
const store = new KeyStore()

function end(code: number): void {
  store.wipe()
  process.exit(code)
}

function handle(body: Buffer): void {
  const type = body.readUInt8(0)
  if (type === toChild.seed) return store.setSeed(body.subarray(1))
  if (type === toChild.importKey) {
    const { text: keyId, next } = readShortText(body, 2)
    return store.addImported(keyId, body.readUInt8(1) === 0 ? 'evm' : 'solana', body.subarray(next))
  }
  const request = body.readUInt32BE(1)
  process.stdout.write(answer(type, request, body))
}

function answer(type: number, request: number, body: Buffer): Buffer {
  try {
    if (type === toChild.describe) {
      const publicKey = store.publicKey(readShortText(body, 5).text)
      return publicKey === undefined
        ? answerFrame(request, fromChild.keyUnknown)
        : answerFrame(request, fromChild.done, publicKey)
    }
    const kind = signKinds[body.readUInt8(5)]!
    const { text: keyId, next } = readShortText(body, 6)
    const signature = store.sign(keyId, kind, body.subarray(next))
    if (signature === 'key-unknown') return answerFrame(request, fromChild.keyUnknown)
    if (signature === 'wrong-kind') return answerFrame(request, fromChild.wrongKind)
    return answerFrame(request, fromChild.done, signature)
  } catch {
    // Whatever a library says about it may quote what it was given.
    return answerFrame(request, fromChild.failed)
  }
}

// Ctrl-C and a service manager's stop reach the whole group; the vault decides when this process ends.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.on('uncaughtException', () => end(70))
process.stdout.on('error', () => end(0))
process.stdin.on('data', createFrameReader(handle))
process.stdin.on('end', () => end(0))
process.stdin.on('error', () => end(0))
