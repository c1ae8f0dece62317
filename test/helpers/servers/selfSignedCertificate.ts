import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { skipOrFail } from '../redis.ts'

export interface Certificate {
  readonly key: string
  readonly cert: string
  /** PEM file of the certificate. */
  readonly certFile: string
}

/**
 * Makes a certificate that signs itself, with `openssl`; skips visibly without the program.
 *
 * @param names as in subjectAltName: `DNS:seller.test,IP:127.0.0.1`
 */
export function selfSignedCertificate(t: Test, names: string): Certificate | undefined {
  const folder = t.testdir()
  const [keyFile, certFile] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const made = spawnSync('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
    ...['-keyout', keyFile, '-out', certFile, '-subj', '/CN=test', '-addext', `subjectAltName=${names}`],
  ])
  if (made.status !== 0) {
    skipOrFail(t, 'openssl is not installed')
    return undefined
  }
  return { key: readFileSync(keyFile, 'utf8'), cert: readFileSync(certFile, 'utf8'), certFile }
}
