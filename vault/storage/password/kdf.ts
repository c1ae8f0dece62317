import { randomBytes } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { hashRaw } from '@node-rs/argon2'
import { VaultError } from '../../errors/error.ts'

/** The cost of one password attempt. Stored beside the wrapped key, which authenticates it. */
export interface KdfParameters {
  readonly memoryKiB: number
  readonly passes: number
  readonly lanes: number
}

/** Derives a key from a password, deliberately slowly. It is a port, so that tests of throttling do not have to wait. */
export interface PasswordHasher {
  /** 32 bytes that depend on the password, the salt and the parameters. The caller zeroes them after use. */
  hash(password: string, salt: Uint8Array, parameters: KdfParameters): Promise<Buffer>
}

const SHORTEST_PASSWORD = 8
const LONGEST_PASSWORD = 1024

/** Minimum parameters. Cheaper ones make an attack on a stolen file affordable, so a header with them is refused. */
export const kdfFloor: KdfParameters = { memoryKiB: 64 * 1024, passes: 3, lanes: 1 }
/**
 * Maximum parameters. With more expensive ones, a forged header would exhaust the machine's memory or time before the password
 * is checked.
 */
export const kdfCap: KdfParameters = { memoryKiB: 1024 * 1024, passes: 64, lanes: 16 }
/** Minimum duration of one password attempt on this machine, in ms. */
const MIN_MS = 250
const MEASURED_RUNS = 3

export const saltBytes = 16
/** `Algorithm.Argon2id`. The package's enum is `const`, which type stripping does not support. */
const argon2id = 2

/** Argon2id (RFC 9106), off the main thread. */
export const argon2idHasher: PasswordHasher = {
  async hash(password, salt, parameters) {
    assertWithinBounds(parameters)
    // The password is normalized, because another keyboard may produce other code points for the same letters.
    const bytes = Buffer.from(password.normalize('NFKC'), 'utf8')
    try {
      return await hashRaw(bytes, {
        algorithm: argon2id,
        memoryCost: parameters.memoryKiB,
        timeCost: parameters.passes,
        parallelism: parameters.lanes,
        outputLen: 32,
        salt,
      })
    } finally {
      bytes.fill(0)
    }
  },
}

/** @throws `VALIDATION_ERROR` unless each parameter is an integer between the floor and the cap */
export function assertWithinBounds(parameters: KdfParameters): void {
  for (const name of ['memoryKiB', 'passes', 'lanes'] as const) {
    const value = parameters[name]
    if (Number.isInteger(value) && value >= kdfFloor[name] && value <= kdfCap[name]) continue
    throw new VaultError(
      'VALIDATION_ERROR',
      `Expected Argon2id ${name} from ${kdfFloor[name]} to ${kdfCap[name]}, got ${value}.`,
    )
  }
}

/**
 * Returns the minimum memory, with as many passes as one attempt needs to take 250 ms on this machine. The first hash of a
 * process is not measured, because it also loads the addon and allocates its 64 MiB, which would make a fast machine look slow.
 * The fastest of several runs counts, because an attacker's machine has no other load.
 *
 * @param nowMs monotonic time in ms
 */
export async function calibrateKdf(
  hasher: PasswordHasher = argon2idHasher,
  nowMs: () => number = () => performance.now(),
): Promise<KdfParameters> {
  const tookMs = async (parameters: KdfParameters): Promise<number> => {
    const startedAtMs = nowMs()
    const hash = await hasher.hash('calibration', randomBytes(saltBytes), parameters)
    hash.fill(0)
    return nowMs() - startedAtMs
  }
  await tookMs(kdfFloor)
  // A single pass costs less than a third of three passes. So the result is measured too, and raised if it is too fast.
  for (let passes = kdfFloor.passes; ; ) {
    const parameters = { ...kdfFloor, passes }
    let fastestMs = Number.POSITIVE_INFINITY
    for (let run = 0; run < MEASURED_RUNS; run++) fastestMs = Math.min(fastestMs, await tookMs(parameters))
    if (fastestMs >= MIN_MS || passes >= kdfCap.passes) return parameters
    const needed = Math.ceil((passes * MIN_MS) / Math.max(1, fastestMs))
    passes = Math.min(kdfCap.passes, Math.max(passes + 1, needed))
  }
}

/** @throws `VALIDATION_ERROR` for a password that is not allowed for a new vault or a password change */
export function assertPassword(password: string): void {
  const length = typeof password === 'string' ? [...password].length : 0
  // A terminal or client with another encoding sends the same replacement character for every letter that it cannot express.
  if (length > 0 && (password.includes('\uFFFD') || !password.isWellFormed()))
    throw new VaultError(
      'VALIDATION_ERROR',
      'Expected a password in UTF-8, got one with characters in another encoding.',
    )
  if (length >= SHORTEST_PASSWORD && length <= LONGEST_PASSWORD) return
  throw new VaultError(
    'VALIDATION_ERROR',
    `Expected a password of ${SHORTEST_PASSWORD} to ${LONGEST_PASSWORD} characters, got ${length}.`,
  )
}
