/** What a format's reader finds: its size, and the parts that are needed to show it, in their order. */
export interface ReadParts {
  readonly width: number
  readonly height: number
  readonly parts: readonly Uint8Array[]
}

/** Why bytes are no picture that can be taken, in words for whoever sent them. */
export class PictureFault extends Error {
  override readonly name = 'PictureFault'
}

export const brokenPicture = () =>
  new PictureFault('The picture is broken: it does not hold what its beginning says. Save it anew.')
