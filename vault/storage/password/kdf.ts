import { randomBytes } from 'node:crypto'
import { performance } from 'node:perf_hooks'
import { hashRaw } from '@node-rs/argon2'
import { VaultError } from '../../errors/error.ts'
import type { KdfParameters, PasswordHasher } from '../../ports/passwordHasher.ts'

const SHORTEST_PASSWORD = 8
const LONGEST_PASSWORD = 1024

/** Below these a stolen file is worth trying; a header that asks for less is refused, whoever wrote it. */
export const kdfFloor: KdfParameters = { memoryKiB: 64 * 1024, passes: 3, lanes: 1 }
/** Above these a forged header would take the machine's memory or its day before the password is even looked at. */
export const kdfCap: KdfParameters = { memoryKiB: 1024 * 1024, passes: 64, lanes: 16 }
/** How long one try should take here at least. */
const LEAST_MS = 250
const MEASURED_RUNS = 3

export const saltBytes = 16
/** `Algorithm.Argon2id`; the package's enum is a const one, which stripped types can not read. */
const argon2id = 2

/** Argon2id (RFC 9106), off the main thread. */
export const argon2idHasher: PasswordHasher = {
  async hash(password, salt, parameters) {
    assertWithinBounds(parameters)
    // One form for one password: the same letters can be typed as other code points on another keyboard.
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

/** @throws `VALIDATION_ERROR` unless each parameter is an integer between the floor and the cap. */
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
 * The floor, with as many passes as one try needs to take 250 ms on this machine, measured warm: the first hash of a process
 * also loads the addon and has its 64 MiB given by the system, and would make a fast machine look slow. Of several runs the
 * fastest counts, because what a busy machine adds is no work for whoever guesses.
 *
 * @param nowMs monotonic, in milliseconds
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
  // A pass costs less than a third of three of them: the choice is measured, too, and raised when it is too quick.
  for (let passes = kdfFloor.passes; ; ) {
    const parameters = { ...kdfFloor, passes }
    let fastestMs = Number.POSITIVE_INFINITY
    for (let run = 0; run < MEASURED_RUNS; run++) fastestMs = Math.min(fastestMs, await tookMs(parameters))
    if (fastestMs >= LEAST_MS || passes >= kdfCap.passes) return parameters
    const needed = Math.ceil((passes * LEAST_MS) / Math.max(1, fastestMs))
    passes = Math.min(kdfCap.passes, Math.max(passes + 1, needed))
  }
}

/** @throws `VALIDATION_ERROR` for a password that a new vault, or a change of password, does not take. */
export function assertPassword(password: string): void {
  const length = typeof password === 'string' ? [...password].length : 0
  // A terminal or a client in another encoding gives the same replacement character for every letter that it can't express.
  if (length > 0 && (password.includes('\uFFFD') || !password.isWellFormed()))
    throw new VaultError(
      'VALIDATION_ERROR',
      'Expected a password whose characters could all be read; this one has letters in another encoding than UTF-8.',
    )
  if (length >= SHORTEST_PASSWORD && length <= LONGEST_PASSWORD) return
  throw new VaultError(
    'VALIDATION_ERROR',
    `Expected a password of ${SHORTEST_PASSWORD} to ${LONGEST_PASSWORD} characters, got ${length}.`,
  )
}
