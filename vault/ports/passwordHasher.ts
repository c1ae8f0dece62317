/** How hard a password is to try. Stored beside the wrapped key and authenticated by it. */
export interface KdfParameters {
  readonly memoryKiB: number
  readonly passes: number
  readonly lanes: number
}

/** Turns a password into a key, slowly on purpose. A port, so that tests of throttling need not wait for it. */
export interface PasswordHasher {
  /** 32 bytes that only this password, salt and these parameters give. The caller zeroes them after use. */
  hash(password: string, salt: Uint8Array, parameters: KdfParameters): Promise<Buffer>
}
