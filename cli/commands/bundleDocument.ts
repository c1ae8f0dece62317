import { readFile, realpath, stat } from 'node:fs/promises'
import { dirname, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  $RefParser,
  type FileInfo,
  JSONParserErrorGroup,
  type ParserOptions,
} from '@apidevtools/json-schema-ref-parser'
import { MAX_OPENAPI_BYTES, readTree } from '../../admin-api/links/import/document.ts'
import { UsageError } from '../output/exitCodes.ts'

/** Maximum number of files in one document. */
const MAX_FILES = 5_000

/** A reference to another file. References within the document begin with `#`. */
const leadsElsewhere = /\$ref["']?\s*:\s*(?!["']?#)\S/

/** A document with its referenced files, as one text. */
export interface BundledDocument {
  readonly text: string
  /** Referenced files that cannot be read, and why. Their references stay in the document. */
  readonly unread: readonly string[]
}

/**
 * Bundles the files that an OpenAPI document references into one document. Only files in the document's folder and below are
 * read, and nothing is fetched from the network.
 *
 * @param file path of the document
 * @param text its content
 * @throws {UsageError} if the document itself cannot be read
 */
export async function bundleDocument(file: string, text: string): Promise<BundledDocument> {
  if (!leadsElsewhere.test(text)) return { text, unread: [] }
  const entry = await realpath(file)
  const parser = new $RefParser()
  const unread: string[] = []
  try {
    await parser.bundle(entry, optionsFor(dirname(entry)))
  } catch (error) {
    if (!(error instanceof JSONParserErrorGroup)) throw error
    unread.push(...error.errors.map(({ message }) => message))
  }
  if (!parser.schema) throw new UsageError(`Expected an OpenAPI document in ${file}. ${unread[0]}`)
  return { text: JSON.stringify(parser.schema), unread }
}

/** The parser's own resolvers read any file and URL, and its YAML rules differ from the gateway's. */
function optionsFor(folder: string): ParserOptions {
  let [files, bytes] = [0, 0]
  async function read({ url }: FileInfo): Promise<string> {
    if (/^(?!file:)[a-z][a-z\d+.-]+:/i.test(url))
      throw new Error(`${url} is not a file, and nothing is fetched.`)
    const path = fileURLToPath(new URL(url, 'file:///'))
    const real = await realpath(path).catch(() => undefined)
    if (real === undefined) throw new Error(`The file ${path} does not exist.`)
    if (!real.startsWith(folder + sep))
      throw new Error(`${path} is outside the document's folder and is not read.`)
    const found = await stat(real)
    if (!found.isFile()) throw new Error(`${path} is not a file.`)
    files += 1
    bytes += found.size
    if (files > MAX_FILES || bytes > MAX_OPENAPI_BYTES)
      throw new Error(
        `${path} is not read, because a document may have at most ${MAX_FILES} files and ${MAX_OPENAPI_BYTES} bytes. Split the document and import the parts.`,
      )
    return readFile(real, 'utf8')
  }
  return {
    continueOnError: true,
    resolve: { file: false, http: false, folder: { order: 1, canRead: true, read } },
    parse: {
      json: false,
      yaml: false,
      text: false,
      binary: false,
      document: { order: 1, canParse: true, parse: ({ data }: FileInfo) => readTree(String(data)) },
    },
  }
}
