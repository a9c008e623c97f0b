import { ConnectionError } from './errors.js'
import {
  ErrorCode,
  FRAME_BYTES_MAX,
  readUint32,
  Setting,
  SETTING_BYTES,
  WINDOW_MAX,
} from './frames.js'

/** HTTP/2 has six settings, and extensions have some more. */
const ENTRIES_MAX = 64

const PEER_FRAME_BYTES_MAX = 2 ** 24 - 1

/**
 * Checks the settings of a client and returns its last initial window, if it has one. No other
 * matters here: responses use no table and no large frames, and nothing is pushed.
 */
export function readPeerSettings(bytes: Buffer, start: number, end: number): number | undefined {
  if ((end - start) % SETTING_BYTES !== 0) {
    throw new ConnectionError(ErrorCode.frameSizeError, 'SETTINGS of a wrong length')
  }
  if (end - start > ENTRIES_MAX * SETTING_BYTES) {
    throw new ConnectionError(ErrorCode.enhanceYourCalm, 'too many settings in one frame')
  }
  let initialWindow: number | undefined
  for (let at = start; at < end; at += SETTING_BYTES) {
    const name = ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)
    const value = readUint32(bytes, at + 2)
    checkSetting(name, value)
    if (name === Setting.initialWindowSize) initialWindow = value
  }
  return initialWindow
}

function checkSetting(name: number, value: number): void {
  if (name === Setting.enablePush && value > 1) {
    throw new ConnectionError(ErrorCode.protocolError, 'ENABLE_PUSH is neither 0 nor 1')
  }
  if (name === Setting.initialWindowSize && value > WINDOW_MAX) {
    throw new ConnectionError(ErrorCode.flowControlError, 'INITIAL_WINDOW_SIZE is too large')
  }
  const isFrameSize = name === Setting.maxFrameSize
  if (isFrameSize && (value < FRAME_BYTES_MAX || value > PEER_FRAME_BYTES_MAX)) {
    throw new ConnectionError(ErrorCode.protocolError, 'MAX_FRAME_SIZE is out of its range')
  }
}
