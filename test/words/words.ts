import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'

/** A word that the house does not use, and what a reader understands at once. */
export interface Rule {
  readonly pattern: RegExp
  readonly instead: string
}

export interface Finding {
  readonly file: string
  readonly line: number
  readonly found: string
  readonly instead: string
}

/** Kept out of comments, messages and documents. CONTRIBUTING.md, "Words", says why. */
export const rules: readonly Rule[] = [
  {
    pattern: /\b(?:whoever|whomever|nobody|no one|somebody|someone|anybody|anyone)\b/gi,
    instead: 'the role: the buyer, the seller, this process',
  },
  { pattern: /\bwhatever\b/gi, instead: 'what is meant: any, each, regardless of' },
  { pattern: /\bcan not\b/gi, instead: 'cannot' },
  { pattern: /\banew\b/gi, instead: 'again, or re-' },
  { pattern: /\bdearer\b/gi, instead: 'more expensive' },
  { pattern: /\baccount numbers?\b/gi, instead: 'nonce' },
  { pattern: /\b(?:hears?|heard) (?:of|that|from|about)\b/gi, instead: 'receives, is notified' },
  {
    pattern:
      /\b(?:gateway|process|node|database|store|vault|key|settler|plugin|agent)s? (?:do(?:es)? not )?(?:believe|know|want)s?\b/gi,
    instead: 'what the program reads, holds or needs',
  },
  { pattern: /\b(?:hangs?|hung|hanging) up\b/gi, instead: 'close, disconnect' },
  { pattern: /\bkey holders?\b/gi, instead: 'lease holder' },
  { pattern: /\bas it may have at once\b/gi, instead: 'at capacity' },
  { pattern: /\bthe books\b/gi, instead: 'the ledger' },
  { pattern: /\bthat one\b/gi, instead: 'the noun' },
  { pattern: /\bthose of before\b/gi, instead: 'the noun' },
  { pattern: /\bways? to pay\b/gi, instead: 'payment method' },
  { pattern: /\blet be\b/gi, instead: 'leave alone, stop' },
]

/** The words of a rule may be on two lines, with the marks of a comment between them. */
const acrossLines = ({ source, flags }: RegExp): RegExp =>
  new RegExp(source.replaceAll(' ', String.raw`(?:\s+(?:(?:\*|//|#|>)\s+)?)`), flags)

function matches(text: string, file: string, firstLine: number): Finding[] {
  return rules.flatMap(({ pattern, instead }) =>
    [...text.matchAll(acrossLines(pattern))].map((match) => ({
      file,
      line: firstLine + text.slice(0, match.index).split('\n').length - 1,
      found: match[0].replaceAll(/\s+(?:(?:\*|\/\/|#|>)\s+)?/g, ' '),
      instead,
    })),
  )
}

/** A sentence: several words, no path, pattern or list of names. */
const isSentence = (text: string): boolean =>
  /^[^<>{}|\\]*\p{L}{2,} \p{L}+ \p{L}+/u.test(text.replaceAll(/<[^>]*>/g, ' '))

/** What the comments of a module say, and its messages where it is not a test. */
function ofModule(text: string, file: string): Finding[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const lineOf = (at: number): number => source.getLineAndCharacterOfPosition(at).line + 1
  const found = new Map<number, Finding[]>()
  const note = (from: number, to: number): void => {
    if (!found.has(from)) found.set(from, matches(text.slice(from, to), file, lineOf(from)))
  }
  const visit = (node: ts.Node): void => {
    for (const { pos, end } of ts.getLeadingCommentRanges(text, node.pos) ?? []) note(pos, end)
    for (const { pos, end } of ts.getTrailingCommentRanges(text, node.end) ?? []) note(pos, end)
    const isText = ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)
    if (isText && !/\.test(?:-d)?\.ts$/.test(file) && isSentence(node.text)) note(node.getStart(), node.end)
    const isPart = ts.isTemplateHead(node) || ts.isTemplateMiddle(node) || ts.isTemplateTail(node)
    if (isPart && !/\.test(?:-d)?\.ts$/.test(file)) note(node.getStart(), node.end)
    node.getChildren(source).forEach(visit)
  }
  visit(source)
  return [...found.values()].flat()
}

/** What a document says outside its code. */
function ofDocument(text: string, file: string): Finding[] {
  const prose = text
    .replace(/^( *)(```|~~~)[\s\S]*?^\1\2/gm, (code) => code.replace(/[^\n]/g, ' '))
    .replace(/`[^`\n]*`/g, (code) => ' '.repeat(code.length))
  return matches(prose, file, 1)
}

/** Reads files below a folder and lists the words that do not belong there. */
export function findWords(root: string, files: readonly string[]): Finding[] {
  return files.flatMap((file) => {
    const text = readFileSync(join(root, file), 'utf8')
    if (!rules.some(({ pattern }) => text.search(acrossLines(pattern)) >= 0)) return []
    if (file.endsWith('.md')) return ofDocument(text, file)
    // The comments and texts of a style sheet and of a configuration file are read by people too.
    return file.endsWith('.ts') ? ofModule(text, file) : matches(text, file, 1)
  })
}
