/** What a `Content-Type` of somebody else's says, and how far that can be relied on. */
export interface ContentType {
  /** Lower case, without parameters; empty when the value is not one media type (RFC 9110, section 8.3.1). */
  readonly mediaType: string
  /**
   * Every browser that is told not to sniff takes the body for data and never for a page: JSON without anything that two
   * readers could read differently, or a picture, sound, film, font or archive. Anything else is not known to be.
   */
  readonly isInert: boolean
}

/** A comma makes two values of one (RFC 9110, section 5.3), of which browsers take the last; a no-break space is no space. */
const oneType = /^([!#$%&'*+\-.^_`|~0-9a-z]+\/[!#$%&'*+\-.^_`|~0-9a-z]+)[\t ]*(?:;[^,]*)?$/i
const exactJson = /^application\/json(?:[\t ]*;[\t ]*charset=(?:utf-8|"utf-8"))?$/i
/** Without any parameter. Not SVG and PDF: they are documents that can bring script. */
const inertTypes = new Set([
  ...['apng', 'avif', 'bmp', 'gif', 'heic', 'jpeg', 'jxl', 'png', 'tiff', 'webp'].map(
    (sub) => `image/${sub}`,
  ),
  ...['aac', 'flac', 'mp4', 'mpeg', 'ogg', 'wav', 'webm'].map((sub) => `audio/${sub}`),
  ...['mp4', 'mpeg', 'ogg', 'quicktime', 'webm'].map((sub) => `video/${sub}`),
  ...['otf', 'ttf', 'woff', 'woff2'].map((sub) => `font/${sub}`),
  ...['octet-stream', 'gzip', 'zip', 'zstd'].map((sub) => `application/${sub}`),
])

/** Sellers use few spellings: each is looked at once. Whoever sends a new one each time empties it, no more. */
const known = new Map<string, ContentType>()
const MAX_KNOWN = 1_000
const MAX_KNOWN_LENGTH = 128

/** @param value of the header, without the white space around it; several headers joined by a comma */
export function contentTypeOf(value: string): ContentType {
  return known.get(value) ?? remember(value)
}

function remember(value: string): ContentType {
  const mediaType = oneType.exec(value)?.[1]?.toLowerCase() ?? ''
  const isInert = exactJson.test(value) || inertTypes.has(value.toLowerCase())
  const contentType = { mediaType, isInert }
  if (value.length > MAX_KNOWN_LENGTH) return contentType
  if (known.size === MAX_KNOWN) known.clear()
  known.set(value, contentType)
  return contentType
}

/** Without `Content-Type`. */
export const noContentType = contentTypeOf('')
