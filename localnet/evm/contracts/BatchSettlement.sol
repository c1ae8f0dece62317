// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ISignatureTransfer} from "./Permit2.sol";
import {IERC20Permit} from "./Permit2Proxies.sol";
import {Signatures} from "./Signatures.sol";

interface IDepositCollector {
    function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes calldata data) external;
}

interface IERC20 {
    function balanceOf(address account) external view returns (uint256);
    function transfer(address to, uint256 value) external returns (bool);
}

/// Payment channels with the interface of x402's batch settlement contract, which clients expect at
/// 0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003 on every chain.
///
/// `balance` of a channel is what was deposited, less refunds and withdrawals. Claims do not lower it, so a claim's total is at
/// most the balance.
contract BatchSettlement {
    struct ChannelConfig {
        address payer;
        address payerAuthorizer;
        address receiver;
        address receiverAuthorizer;
        address token;
        uint40 withdrawDelay;
        bytes32 salt;
    }

    struct Voucher {
        ChannelConfig channel;
        uint128 maxClaimableAmount;
    }

    struct VoucherClaim {
        Voucher voucher;
        bytes signature;
        uint128 totalClaimed;
    }

    struct Channel {
        uint128 balance;
        uint128 totalClaimed;
    }

    struct Withdrawal {
        uint128 amount;
        uint40 initiatedAt;
    }

    struct Receiver {
        uint128 totalClaimed;
        uint128 totalSettled;
    }

    uint40 private constant MIN_DELAY = 900;
    uint40 private constant MAX_DELAY = 2592000;

    bytes32 public constant CHANNEL_CONFIG_TYPEHASH = keccak256(
        "ChannelConfig(address payer,address payerAuthorizer,address receiver,address receiverAuthorizer,address token,uint40 withdrawDelay,bytes32 salt)"
    );
    bytes32 private constant VOUCHER_TYPEHASH = keccak256("Voucher(bytes32 channelId,uint128 maxClaimableAmount)");
    bytes32 private constant REFUND_TYPEHASH = keccak256("Refund(bytes32 channelId,uint256 nonce,uint128 amount)");
    bytes32 private constant CLAIM_ENTRY_TYPEHASH =
        keccak256("ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)");
    bytes32 private constant CLAIM_BATCH_TYPEHASH = keccak256(
        "ClaimBatch(ClaimEntry[] claims)ClaimEntry(bytes32 channelId,uint128 maxClaimableAmount,uint128 totalClaimed)"
    );

    mapping(bytes32 channelId => Channel) public channels;
    mapping(bytes32 channelId => Withdrawal) public pendingWithdrawals;
    mapping(bytes32 channelId => uint256) public refundNonce;
    mapping(address receiver => mapping(address token => Receiver)) public receivers;

    event Deposited(bytes32 indexed channelId, address indexed sender, uint128 amount, uint128 newBalance);
    event Claimed(bytes32 indexed channelId, address indexed sender, uint128 claimAmount, uint128 newTotalClaimed);
    event Settled(address indexed receiver, address indexed token, address indexed sender, uint128 amount);
    event Refunded(bytes32 indexed channelId, address indexed sender, uint128 amount);
    event WithdrawInitiated(bytes32 indexed channelId, uint128 amount, uint40 finalizeAfter);
    event WithdrawFinalized(bytes32 indexed channelId, address indexed sender, uint128 amount);

    error InvalidChannel();
    error DepositFailed();
    error NotAuthorized();
    error InvalidSignature();
    error ClaimExceedsCeiling();
    error ClaimExceedsBalance();
    error InvalidNonce();
    error NothingToWithdraw();
    error WithdrawDelayNotElapsed();

    function multicall(bytes[] calldata data) external returns (bytes[] memory results) {
        results = new bytes[](data.length);
        for (uint256 i = 0; i < data.length; i++) {
            (bool ok, bytes memory result) = address(this).delegatecall(data[i]);
            if (!ok) {
                assembly {
                    revert(add(result, 0x20), mload(result))
                }
            }
            results[i] = result;
        }
    }

    function deposit(ChannelConfig calldata config, uint128 amount, address collector, bytes calldata collectorData)
        external
    {
        if (
            amount == 0 || config.payer == address(0) || config.receiver == address(0)
                || config.receiverAuthorizer == address(0) || config.token == address(0)
                || config.withdrawDelay < MIN_DELAY || config.withdrawDelay > MAX_DELAY
        ) revert InvalidChannel();
        bytes32 channelId = getChannelId(config);
        uint256 before = IERC20(config.token).balanceOf(address(this));
        IDepositCollector(collector).collect(config.payer, config.token, amount, channelId, collectorData);
        if (IERC20(config.token).balanceOf(address(this)) < before + amount) revert DepositFailed();
        channels[channelId].balance += amount;
        emit Deposited(channelId, msg.sender, amount, channels[channelId].balance);
    }

    function claim(VoucherClaim[] calldata voucherClaims) external {
        for (uint256 i = 0; i < voucherClaims.length; i++) {
            ChannelConfig calldata config = voucherClaims[i].voucher.channel;
            if (msg.sender != config.receiver && msg.sender != config.receiverAuthorizer) revert NotAuthorized();
            _claim(voucherClaims[i]);
        }
    }

    function claimWithSignature(VoucherClaim[] calldata voucherClaims, bytes calldata authorizerSignature) external {
        if (voucherClaims.length == 0) return;
        address authorizer = voucherClaims[0].voucher.channel.receiverAuthorizer;
        if (!Signatures.isValidNow(authorizer, getClaimBatchDigest(voucherClaims), authorizerSignature)) {
            revert InvalidSignature();
        }
        for (uint256 i = 0; i < voucherClaims.length; i++) {
            if (voucherClaims[i].voucher.channel.receiverAuthorizer != authorizer) revert NotAuthorized();
            _claim(voucherClaims[i]);
        }
    }

    function settle(address receiver, address token) external {
        Receiver storage totals = receivers[receiver][token];
        uint128 amount = totals.totalClaimed - totals.totalSettled;
        if (amount == 0) return;
        totals.totalSettled += amount;
        IERC20(token).transfer(receiver, amount);
        emit Settled(receiver, token, msg.sender, amount);
    }

    function initiateWithdraw(ChannelConfig calldata config, uint128 amount) external {
        _onlyPayer(config);
        bytes32 channelId = getChannelId(config);
        if (amount == 0 || amount > _available(channelId)) revert NothingToWithdraw();
        pendingWithdrawals[channelId] = Withdrawal(amount, uint40(block.timestamp));
        emit WithdrawInitiated(channelId, amount, uint40(block.timestamp) + config.withdrawDelay);
    }

    function finalizeWithdraw(ChannelConfig calldata config) external {
        _onlyPayer(config);
        bytes32 channelId = getChannelId(config);
        Withdrawal memory pending = pendingWithdrawals[channelId];
        if (pending.amount == 0) revert NothingToWithdraw();
        if (block.timestamp < uint256(pending.initiatedAt) + config.withdrawDelay) revert WithdrawDelayNotElapsed();
        // Vouchers that are claimed meanwhile come first.
        uint128 amount = _smaller(pending.amount, _available(channelId));
        delete pendingWithdrawals[channelId];
        channels[channelId].balance -= amount;
        IERC20(config.token).transfer(config.payer, amount);
        emit WithdrawFinalized(channelId, msg.sender, amount);
    }

    function refund(ChannelConfig calldata config, uint128 amount) external {
        if (msg.sender != config.receiver && msg.sender != config.receiverAuthorizer) revert NotAuthorized();
        _refund(config, getChannelId(config), amount);
    }

    function refundWithSignature(
        ChannelConfig calldata config,
        uint128 amount,
        uint256 nonce,
        bytes calldata receiverAuthorizerSignature
    ) external {
        bytes32 channelId = getChannelId(config);
        if (nonce != refundNonce[channelId]) revert InvalidNonce();
        bytes32 digest = getRefundDigest(channelId, nonce, amount);
        if (!Signatures.isValidNow(config.receiverAuthorizer, digest, receiverAuthorizerSignature)) {
            revert InvalidSignature();
        }
        // The nonce rises even if there is nothing to refund.
        refundNonce[channelId] = nonce + 1;
        _refund(config, channelId, amount);
    }

    function getChannelId(ChannelConfig calldata config) public view returns (bytes32) {
        return _digest(
            keccak256(
                abi.encode(
                    CHANNEL_CONFIG_TYPEHASH,
                    config.payer,
                    config.payerAuthorizer,
                    config.receiver,
                    config.receiverAuthorizer,
                    config.token,
                    config.withdrawDelay,
                    config.salt
                )
            )
        );
    }

    function getVoucherDigest(bytes32 channelId, uint128 maxClaimableAmount) public view returns (bytes32) {
        return _digest(keccak256(abi.encode(VOUCHER_TYPEHASH, channelId, maxClaimableAmount)));
    }

    function getRefundDigest(bytes32 channelId, uint256 nonce, uint128 amount) public view returns (bytes32) {
        return _digest(keccak256(abi.encode(REFUND_TYPEHASH, channelId, nonce, amount)));
    }

    function getClaimBatchDigest(VoucherClaim[] calldata voucherClaims) public view returns (bytes32) {
        bytes32[] memory entries = new bytes32[](voucherClaims.length);
        for (uint256 i = 0; i < voucherClaims.length; i++) {
            VoucherClaim calldata one = voucherClaims[i];
            entries[i] = keccak256(
                abi.encode(
                    CLAIM_ENTRY_TYPEHASH,
                    getChannelId(one.voucher.channel),
                    one.voucher.maxClaimableAmount,
                    one.totalClaimed
                )
            );
        }
        return _digest(keccak256(abi.encode(CLAIM_BATCH_TYPEHASH, keccak256(abi.encodePacked(entries)))));
    }

    function _claim(VoucherClaim calldata one) private {
        ChannelConfig calldata config = one.voucher.channel;
        bytes32 channelId = getChannelId(config);
        Channel storage channel = channels[channelId];
        // A claim of what is claimed already changes nothing, so its signature is not checked either.
        if (one.totalClaimed <= channel.totalClaimed) return;
        if (one.totalClaimed > one.voucher.maxClaimableAmount) revert ClaimExceedsCeiling();
        if (one.totalClaimed > channel.balance) revert ClaimExceedsBalance();
        bytes32 digest = getVoucherDigest(channelId, one.voucher.maxClaimableAmount);
        bool isSigned = config.payerAuthorizer == address(0)
            ? Signatures.isValidNow(config.payer, digest, one.signature)
            : Signatures.recover(digest, one.signature) == config.payerAuthorizer;
        if (!isSigned) revert InvalidSignature();
        uint128 amount = one.totalClaimed - channel.totalClaimed;
        channel.totalClaimed = one.totalClaimed;
        receivers[config.receiver][config.token].totalClaimed += amount;
        emit Claimed(channelId, msg.sender, amount, one.totalClaimed);
    }

    function _refund(ChannelConfig calldata config, bytes32 channelId, uint128 amount) private {
        uint128 refunded = _smaller(amount, _available(channelId));
        if (refunded == 0) return;
        channels[channelId].balance -= refunded;
        Withdrawal storage pending = pendingWithdrawals[channelId];
        uint128 left = _available(channelId);
        if (left == 0) delete pendingWithdrawals[channelId];
        else if (pending.amount > left) pending.amount = left;
        IERC20(config.token).transfer(config.payer, refunded);
        emit Refunded(channelId, msg.sender, refunded);
    }

    function _onlyPayer(ChannelConfig calldata config) private view {
        if (msg.sender != config.payer && msg.sender != config.payerAuthorizer) revert NotAuthorized();
    }

    function _available(bytes32 channelId) private view returns (uint128) {
        Channel storage channel = channels[channelId];
        return channel.balance - channel.totalClaimed;
    }

    function _smaller(uint128 a, uint128 b) private pure returns (uint128) {
        return a < b ? a : b;
    }

    function _digest(bytes32 structHash) private view returns (bytes32) {
        bytes32 separator = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("x402 Batch Settlement"),
                keccak256("1"),
                block.chainid,
                address(this)
            )
        );
        return keccak256(abi.encodePacked("\x19\x01", separator, structHash));
    }
}

interface IReceiveWithAuthorization {
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes memory signature
    ) external;
}

/// Pulls a deposit by ERC-3009, at 0x4020806089470a89826cB9fB1f4059150b550004 on every chain. The authorization's nonce is bound to
/// the channel, so no sender can put the money into another channel.
contract Erc3009DepositCollector {
    address private constant SETTLEMENT = 0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003;

    error OnlySettlement();

    function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes calldata data) external {
        if (msg.sender != SETTLEMENT) revert OnlySettlement();
        (uint256 validAfter, uint256 validBefore, uint256 salt, bytes memory signature) =
            abi.decode(data, (uint256, uint256, uint256, bytes));
        bytes32 nonce = keccak256(abi.encode(channelId, salt));
        IReceiveWithAuthorization(token)
            .receiveWithAuthorization(payer, address(this), amount, validAfter, validBefore, nonce, signature);
        IERC20(token).transfer(SETTLEMENT, amount);
    }
}

/// Pulls a deposit by Permit2, at 0x4020425FAf3B746C082C2f942b4E5159887B0005 on every chain. The payer's permit names the collector as
/// its spender, and its witness names the channel.
contract Permit2DepositCollector {
    address private constant SETTLEMENT = 0x4020074e9dF2ce1deE5A9C1b5c3f541D02a10003;
    ISignatureTransfer public constant PERMIT2 = ISignatureTransfer(0x000000000022D473030F116dDEE9F6B43aC78BA3);
    bytes32 public constant DEPOSIT_WITNESS_TYPEHASH = keccak256("DepositWitness(bytes32 channelId)");
    string public constant DEPOSIT_WITNESS_TYPE_STRING =
        "DepositWitness witness)DepositWitness(bytes32 channelId)TokenPermissions(address token,uint256 amount)";

    error OnlySettlement();
    error Permit2612AmountMismatch();

    function collect(address payer, address token, uint256 amount, bytes32 channelId, bytes calldata data) external {
        if (msg.sender != SETTLEMENT) revert OnlySettlement();
        (uint256 nonce, uint256 deadline, bytes memory signature, bytes memory permit2612) =
            abi.decode(data, (uint256, uint256, bytes, bytes));
        if (permit2612.length > 0) _allow(payer, token, amount, permit2612);
        PERMIT2.permitWitnessTransferFrom(
            ISignatureTransfer.PermitTransferFrom(ISignatureTransfer.TokenPermissions(token, amount), nonce, deadline),
            ISignatureTransfer.SignatureTransferDetails(SETTLEMENT, amount),
            payer,
            keccak256(abi.encode(DEPOSIT_WITNESS_TYPEHASH, channelId)),
            DEPOSIT_WITNESS_TYPE_STRING,
            signature
        );
    }

    /// A permit that fails may have been submitted before, so only the missing allowance decides.
    function _allow(address payer, address token, uint256 amount, bytes memory permit2612) private {
        (uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s) =
            abi.decode(permit2612, (uint256, uint256, uint8, bytes32, bytes32));
        if (value != amount) revert Permit2612AmountMismatch();
        try IERC20Permit(token).permit(payer, address(PERMIT2), value, deadline, v, r, s) {} catch {}
    }
}
