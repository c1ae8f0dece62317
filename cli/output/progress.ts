import { visibleText } from '../../core/text/visibleText.ts'
import { truncate } from './displayWidth.ts'
import type { Stream } from './stream.ts'
import type { Styles } from './style.ts'

/** A line on the terminal that says what is going on. It is gone, or replaced by its result, when the work is done. */
export interface Progress {
  update(text: string): void
  /** Ends it; with a text, leaves that line behind a tick. */
  done(text?: string): void
  /** Ends it; with a text, leaves that line behind a cross. */
  fail(text?: string): void
}

const frames = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
const FRAME_MS = 80
const clearLine = '\r\u001b[2K'

export const silentProgress: Progress = { update() {}, done() {}, fail() {} }

/** Shows a spinner on a terminal. The timer does not keep the process alive. */
export function startProgress(stream: Stream, styles: Styles, text: string): Progress {
  let shown = visibleText(text)
  let frame = 0
  let isOver = false
  const draw = () => {
    const line = truncate(shown, (stream.columns || 80) - 3)
    stream.write(`${clearLine}${styles.dim(frames[frame++ % frames.length]!)} ${line}`)
  }
  const timer = setInterval(draw, FRAME_MS)
  timer.unref()
  draw()

  const end = (mark: string, result: string | undefined) => {
    if (isOver) return
    isOver = true
    clearInterval(timer)
    stream.write(result === undefined ? clearLine : `${clearLine}${mark} ${visibleText(result)}\n`)
  }
  return {
    update(next) {
      if (isOver) return
      shown = visibleText(next)
      draw()
    },
    done: (result) => end(styles.green('✓'), result),
    fail: (result) => end(styles.red('✗'), result),
  }
}
